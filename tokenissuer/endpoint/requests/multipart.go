package requests

import (
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"
)

// maxPartHeaders bounds the total size of the part headers in bytes.
const maxPartHeaders = 8 << 10

// The media types of a form.
const (
	URLEncoded     = "application/x-www-form-urlencoded"
	mediaMultipart = "multipart/form-data"
	mediaJSON      = "application/json"
)

// Media is a parsed Content-Type.
type Media struct {
	Name     string // in lower case
	boundary string // of a multipart body
	ascii    bool   // text must be ASCII, because the charset agrees with UTF-8 only there
}

// ParseMediaType parses the Content-Type of a request. It refuses parameters other than a boundary and a known charset, so that no proxy
// can read the body differently.
func ParseMediaType(headers []string) (Media, error) {
	if len(headers) == 1 && headers[0] == URLEncoded {
		return Media{Name: URLEncoded}, nil
	}
	name, params, err := parseContentType(headers)
	if err != nil {
		return Media{}, err
	}
	m := Media{Name: name}
	switch name {
	case URLEncoded, mediaJSON:
	case mediaMultipart:
		m.boundary = params["boundary"]
		if !validBoundary(m.boundary) {
			return Media{}, Invalid("multipart_malformed")
		}
		delete(params, "boundary")
	default:
		return Media{}, Invalid("content_type_unsupported")
	}
	var known bool
	if m.ascii, known = charset(params); !known {
		return Media{}, Invalid("charset_unsupported")
	}
	return m, nil
}

// Check refuses a body outside its charset, including escaped bytes of a form.
func (m Media) Check(body []byte) error {
	if !m.ascii {
		return nil
	}
	text := string(body)
	if m.Name == URLEncoded {
		if plain, err := url.QueryUnescape(text); err == nil { // on an error, the parser refuses it
			text = plain
		}
	}
	if !isASCII(text) {
		return Invalid("charset_unsupported")
	}
	return nil
}

// charset checks the parameters of a media type, which may only be a charset. ascii reports that the text must be ASCII. Apache HttpClient
// and others send ISO-8859-1 or US-ASCII by default, which agree with UTF-8 only in ASCII.
func charset(params map[string]string) (ascii, known bool) {
	for name, value := range params {
		if name != "charset" {
			return false, false
		}
		switch strings.ToLower(value) {
		case "utf-8":
		case "us-ascii", "iso-8859-1":
			ascii = true
		default:
			return false, false
		}
	}
	return ascii, true
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c >= utf8.RuneSelf })
}

// parseContentType parses a Content-Type, which must occur once. It refuses the continuations of RFC 2231 (`boundary*0=`) and bytes outside
// printable ASCII, which parsers interpret differently.
func parseContentType(headers []string) (string, map[string]string, error) {
	switch len(headers) {
	case 0:
		return "", nil, Invalid("content_type_missing")
	case 1:
	default:
		return "", nil, Invalid("content_type_duplicate")
	}
	odd := func(c rune) bool { return c == '*' || c < ' ' || c > '~' }
	media, params, err := mime.ParseMediaType(headers[0])
	if err != nil || strings.ContainsFunc(headers[0], odd) {
		return "", nil, Invalid("content_type_malformed")
	}
	return media, params, nil
}

// validBoundary checks a boundary by RFC 2046 §5.1.1, but allows no spaces.
func validBoundary(boundary string) bool {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	return boundary != "" && len(boundary) <= 70 && strings.Trim(boundary, letters+"'()+_,-./:=?") == ""
}

// parseMultipart parses simple fields (RFC 7578), as `curl -F` sends them. It allows nothing before the first boundary or after the last,
// and requires CRLF. mime/multipart is more lenient than a token endpoint should be.
func parseMultipart(body, boundary string) (Form, error) {
	malformed := Invalid("multipart_malformed")
	delimiter := "\r\n--" + boundary
	rest, ok := strings.CutPrefix(body, delimiter[len("\r\n"):])
	if !ok {
		return Form{}, malformed
	}
	var f Form
	for headers := 0; ; {
		switch rest {
		case "--", "--\r\n":
			return f, nil
		}
		if rest, ok = strings.CutPrefix(rest, "\r\n"); !ok {
			return Form{}, malformed
		}
		var part string
		if part, rest, ok = strings.Cut(rest, delimiter); !ok {
			return Form{}, malformed // truncated
		}
		header, value, ok := strings.Cut(part, "\r\n\r\n")
		if headers += len(header); !ok || headers > maxPartHeaders {
			return Form{}, malformed
		}
		name, ascii, err := fieldName(header)
		if err != nil {
			return Form{}, err
		}
		if ascii && !isASCII(value) {
			return Form{}, Invalid("charset_unsupported")
		}
		if err := f.add(name, value); err != nil {
			return Form{}, err
		}
	}
}

// fieldName parses the headers of one part. It returns the field's name, and whether the value must be ASCII. It accepts only plain text:
// it refuses files, nested multiparts, and encodings that change the bytes (RFC 7578 §4.7).
func fieldName(header string) (field string, ascii bool, err error) {
	var dispositions, types, encodings []string
	for line := range strings.SplitSeq(header, "\r\n") {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !validName(name) || strings.ContainsAny(value, "\r\n\x00") {
			return "", false, Invalid("multipart_malformed") // includes folded lines, which have no valid name
		}
		switch strings.ToLower(name) {
		case "content-disposition":
			dispositions = append(dispositions, strings.TrimSpace(value))
		case "content-type":
			types = append(types, strings.TrimSpace(value))
		case "content-transfer-encoding":
			encodings = append(encodings, strings.ToLower(strings.TrimSpace(value)))
		}
	}
	unsupported := Invalid("multipart_part_unsupported")
	if types != nil {
		name, params, err := parseContentType(types)
		if err != nil {
			return "", false, err
		}
		known := false
		if ascii, known = charset(params); name != "text/plain" || !known {
			return "", false, unsupported
		}
	}
	switch {
	case encodings == nil:
	case len(encodings) == 1 && encodings[0] == "7bit":
		ascii = true
	case len(encodings) == 1 && (encodings[0] == "8bit" || encodings[0] == "binary"):
	default:
		return "", false, unsupported
	}
	disposition, params, err := parseContentType(dispositions)
	if err != nil {
		return "", false, Invalid("multipart_malformed")
	}
	if name, named := params["name"]; named && len(params) == 1 && disposition == "form-data" {
		return name, ascii, nil
	}
	return "", false, unsupported
}
