package words

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of the operator's catalogues. The English one has 20 KiB.
const (
	maxFile     = 256 << 10
	maxFiles    = 100
	maxProblems = 10
)

const suffix = ".json"

// shippedTexts returns the catalogues that we ship, which each configuration of the process shares.
var shippedTexts = sync.OnceValues(readShipped)

// readShipped reads the catalogues that we ship.
func readShipped() (map[Language]Catalogue, error) {
	texts := make(map[Language]Catalogue)
	for _, dir := range []string{"catalogues", "console"} {
		entries, err := shipped.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			content, err := shipped.ReadFile(path.Join(dir, entry.Name()))
			if err != nil {
				return nil, err
			}
			lang, err := Parse(strings.TrimSuffix(entry.Name(), suffix))
			if err != nil {
				return nil, err
			}
			part, _, err := decode(content)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", entry.Name(), err)
			}
			if texts[lang] == nil {
				texts[lang] = make(Catalogue)
			}
			maps.Copy(texts[lang], part)
		}
	}
	return texts, nil
}

// optional reports whether a catalogue of an operator may lack a text, which is then in English: those of the console, which only operators
// read.
func optional(key string) bool { return strings.HasPrefix(key, "console.") }

// addDirectory adds the catalogues of a directory. It accepts symbolic links that stay in the directory, as a mounted ConfigMap has them.
// It skips names with a leading dot.
func addDirectory(texts map[Language]Catalogue, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("languages: %w", err)
	}
	defer func() { _ = root.Close() }()
	names, err := catalogueNames(root)
	if err != nil {
		return fmt.Errorf("languages %s: %w", dir, err)
	}
	seen := make(map[Language]string)
	english := texts[Default]
	for _, name := range names {
		lang, err := languageOf(name)
		if err != nil {
			return fmt.Errorf("languages %s: %w", dir, err)
		}
		if other, twice := seen[lang]; twice {
			return fmt.Errorf("languages %s: %s and %s are the same language, %s: remove one of them", dir, other, name, lang)
		}
		seen[lang] = name
		if texts[lang], err = readFile(root, name, english); err != nil {
			return fmt.Errorf("languages %s: %w", dir, err)
		}
	}
	return nil
}

// catalogueNames lists the files of a directory, in order.
func catalogueNames(root *os.Root) ([]string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	entries, err := dir.ReadDir(4 * maxFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return nil, errors.New("there is no file in it: add one for each language, named like it.json")
	case len(names) > maxFiles || len(entries) == 4*maxFiles:
		return nil, fmt.Errorf("there are more than %d files in it", maxFiles)
	}
	return names, nil
}

// languageOf returns the language of a file.
func languageOf(name string) (Language, error) {
	tag, is := strings.CutSuffix(name, suffix)
	if !is {
		return "", fmt.Errorf("%.64q is not a catalogue: name it like it.json, or take it out of the directory", name)
	}
	lang, err := Parse(tag)
	if err != nil {
		return "", fmt.Errorf("%.64q: %w", name, err)
	}
	return lang, nil
}

// readFile reads a catalogue and compares it with the English one.
func readFile(root *os.Root, name string, english Catalogue) (Catalogue, error) {
	// A pipe or a device could keep the server from starting.
	info, err := root.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%w: use a file, or a link to a file in the same directory", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("%s has more than %d KiB", name, maxFile>>10)
	}
	texts, lines, err := decode(content)
	if err != nil {
		return nil, fmt.Errorf("%s%w", name, err)
	}
	if problems := compare(texts, english, lines); len(problems) > 0 {
		more := ""
		if n := len(problems) - maxProblems; n > 0 {
			problems, more = problems[:maxProblems], fmt.Sprintf("; and %d more", n)
		}
		return nil, fmt.Errorf("%s%s%s", name, strings.Join(problems, "; "+name), more)
	}
	for key, text := range english {
		if _, has := texts[key]; !has {
			texts[key] = text
		}
	}
	return texts, nil
}

// decode reads a catalogue strictly, with the line of each key. Errors begin with the line, as ":12: ".
func decode(content []byte) (texts Catalogue, lines map[string]int, err error) {
	line := func(offset int64) int {
		return 1 + bytes.Count(content[:min(offset, int64(len(content)))], []byte("\n"))
	}
	if at := invalidUTF8(content); at >= 0 {
		return nil, nil, fmt.Errorf(":%d: this is not UTF-8: save the file in that encoding", line(int64(at)))
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(content))
	fault := func(err error) error {
		at := decoder.InputOffset()
		var syntax *jsontext.SyntacticError
		switch {
		case errors.Is(err, io.EOF):
			err = errors.New("there is no catalogue in it")
		case !errors.As(err, &syntax):
		case errors.Is(err, jsontext.ErrDuplicateName):
			at, err = syntax.ByteOffset, fmt.Errorf("the key %q is there twice", syntax.JSONPointer.LastToken())
		default:
			at, err = syntax.ByteOffset, fmt.Errorf("this is not JSON: %w", syntax.Err)
		}
		return fmt.Errorf(":%d: %w", line(at), err)
	}
	if start, err := decoder.ReadToken(); err != nil {
		return nil, nil, fault(err)
	} else if start.Kind() != '{' {
		return nil, nil, fault(errors.New("a catalogue is a JSON object of keys and texts"))
	}
	texts, lines = make(Catalogue), make(map[string]int)
	for decoder.PeekKind() != '}' {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil, nil, fault(err)
		}
		key := token.String()
		lines[key] = line(decoder.InputOffset())
		if token, err = decoder.ReadToken(); err != nil {
			return nil, nil, fault(err)
		}
		if token.Kind() != '"' {
			return nil, nil, fault(fmt.Errorf("%.64q is not a text: put it in quotation marks", key))
		}
		texts[key] = token.String()
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, nil, fault(err)
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, nil, fault(errors.New("something follows the object: take it away"))
	}
	return texts, lines, nil
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(content []byte) int {
	for i := 0; i < len(content); {
		r, size := utf8.DecodeRune(content[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// compare returns what is wrong with a catalogue: missing and unknown keys, and texts that cannot stand where the English ones do. Each
// begins with the line of its key.
func compare(texts, english Catalogue, lines map[string]int) []string {
	var problems []string
	if missing := slices.DeleteFunc(without(english, texts), optional); len(missing) > 0 {
		problems = append(problems, fmt.Sprintf(": %s missing: translate %s from the English catalogue", are(missing), list(missing)))
	}
	known := slices.SortedFunc(maps.Keys(texts), func(a, b string) int { return lines[a] - lines[b] })
	for _, key := range known {
		wrong := ""
		if _, is := english[key]; !is {
			wrong = fmt.Sprintf("there is no text %.64q: correct its key or take it away", key)
		} else if wrong = wrongText(key, texts[key], english[key]); wrong == "" {
			continue
		}
		problems = append(problems, fmt.Sprintf(":%d: %s", lines[key], wrong))
	}
	return problems
}

// wrongText returns what is wrong with a text, or "".
func wrongText(key, text, english string) string {
	got, want := placeholders(text), placeholders(english)
	switch {
	case strings.TrimSpace(text) == "":
		return fmt.Sprintf("%s is empty: translate %q", key, english)
	case strings.TrimSpace(text) != text:
		return fmt.Sprintf("%s begins or ends with a space", key)
	case strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Sprintf("%s has a line break or another control character: write it on one line", key)
	case !slices.Equal(got, want) && len(want) == 0:
		return fmt.Sprintf("%s has %s, and the English text has no placeholder", key, strings.Join(got, " "))
	case !slices.Equal(got, want):
		return fmt.Sprintf("%s needs the placeholders of the English text, each once: %s", key, strings.Join(want, " "))
	case strings.ContainsAny(placeholder.ReplaceAllString(text, ""), "{}"):
		return fmt.Sprintf("%s has a brace that belongs to no placeholder", key)
	case key == "language.direction" && text != "ltr" && text != "rtl":
		return fmt.Sprintf("%s is %.64q: use ltr or rtl", key, text)
	}
	return ""
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// placeholders returns the placeholders of a text, in alphabetical order.
func placeholders(text string) []string {
	found := placeholder.FindAllString(text, -1)
	slices.Sort(found)
	return found
}

// without returns the keys of a that b lacks, in alphabetical order.
func without(a, b Catalogue) []string {
	var keys []string
	for key := range a {
		if _, has := b[key]; !has {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func are(keys []string) string {
	if len(keys) == 1 {
		return "1 key is"
	}
	return fmt.Sprintf("%d keys are", len(keys))
}

// list names the first few of the keys.
func list(keys []string) string {
	if len(keys) > maxProblems {
		return strings.Join(keys[:maxProblems], ", ") + fmt.Sprintf(" and %d more", len(keys)-maxProblems)
	}
	return strings.Join(keys, ", ")
}
