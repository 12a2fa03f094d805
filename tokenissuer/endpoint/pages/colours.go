package pages

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// Colours are a colour for the light scheme and one for the dark scheme, as #rrggbb or rrggbb.
type Colours struct {
	Light string `json:"light"`
	Dark  string `json:"dark"`
}

// textContrast and shapeContrast are the contrast ratios that WCAG 2.2 asks of text (1.4.3), and of borders and the focus ring (1.4.11).
const (
	textContrast  = 4.5
	shapeContrast = 3
)

// rgb is a colour.
type rgb [3]byte

func (c rgb) String() string { return "#" + hex.EncodeToString(c[:]) }

// parseColour reads #rrggbb or rrggbb.
func parseColour(text string) (c rgb, err error) {
	digits, err := hex.DecodeString(strings.TrimPrefix(text, "#"))
	if err != nil || len(digits) != len(c) {
		return c, fmt.Errorf("%.64q is not a colour: use six hex digits, as 2b50c8", text)
	}
	return rgb(digits), nil
}

// luminance returns the relative luminance of WCAG 2.2.
func (c rgb) luminance() float64 {
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		part := float64(c[i]) / 255
		if part <= 0.04045 {
			part /= 12.92
		} else {
			part = math.Pow((part+0.055)/1.055, 2.4)
		}
		sum += weight * part
	}
	return sum
}

// contrast returns the contrast ratio of WCAG 2.2, from 1 to 21.
func contrast(a, b rgb) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// mix returns a colour with a share of another.
func (c rgb) mix(other rgb, share float64) rgb {
	for i := range c {
		c[i] = byte(math.Round(float64(c[i])*(1-share) + float64(other[i])*share))
	}
	return c
}

// palette is the colours of a scheme by the names of their CSS properties.
type palette map[string]rgb

var property = regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`)

// palettes returns the colours of a style sheet for the light and the dark scheme.
func palettes(style []byte) (light, dark palette, err error) {
	first, rest, found := bytes.Cut(style, []byte("@media (prefers-color-scheme: dark)"))
	second, _, closed := bytes.Cut(rest, []byte("\n}\n"))
	if !found || !closed {
		return nil, nil, errors.New("the style sheet has no dark scheme")
	}
	read := func(css []byte) palette {
		p := make(palette)
		for _, m := range property.FindAllSubmatch(css, -1) {
			p[string(m[1])], _ = parseColour(string(m[2]))
		}
		return p
	}
	return read(first), read(second), nil
}

// pair is two colours that stand side by side.
type pair struct {
	front, back string
	least       float64
}

// pairs are all adjacent colours of the style sheet.
var pairs = []pair{
	{"text", "page", textContrast},
	{"text", "card", textContrast},
	{"text", "tint", textContrast},
	{"text", "danger-tint", textContrast},
	{"quiet", "page", textContrast},
	{"quiet", "card", textContrast},
	{"on-accent", "accent", textContrast},
	{"on-accent", "accent-hover", textContrast},
	{"accent", "card", textContrast},
	{"accent", "tint", textContrast},
	{"danger", "card", textContrast},
	{"danger", "danger-tint", textContrast},
	{"field", "card", shapeContrast},
	{"accent", "page", shapeContrast},
	{"danger", "page", shapeContrast},
}

// meanings are the colours in errors.
var meanings = map[string]string{
	"text": "the text", "quiet": "the small text", "card": "the card", "danger": "the colour of errors", "page": "the background",
	"accent": "the accent", "accent-hover": "the accent under the pointer", "on-accent": "the text of buttons",
	"tint": "the tint of notices, made of the accent,",
}

// style returns CSS that replaces the accent and the background of a style sheet, or nothing. It refuses colours with too little contrast
// to what stands beside them.
func (s *Settings) style(sheet []byte) (string, error) {
	if s.Accent == nil && s.Background == nil {
		return "", nil
	}
	light, dark, err := palettes(sheet)
	if err != nil {
		return "", err
	}
	for _, part := range []struct {
		setting string
		colours *Colours
	}{{"background", s.Background}, {"accent", s.Accent}} {
		if part.colours == nil {
			continue
		}
		if err := light.set(part.setting, part.colours.Light, rgb{}); err != nil {
			return "", &Fault{part.setting, fmt.Errorf("in the light scheme %w", err)}
		}
		if err := dark.set(part.setting, part.colours.Dark, rgb{255, 255, 255}); err != nil {
			return "", &Fault{part.setting, fmt.Errorf("in the dark scheme %w", err)}
		}
	}
	return "\n:root {" + light.css() + "}\n@media (prefers-color-scheme: dark) { :root {" + dark.css() + "} }\n", nil
}

// set changes the colours that a setting decides. Strong is the colour away from the scheme's card: a mix with it has more contrast.
func (p palette) set(setting, text string, strong rgb) error {
	c, err := parseColour(text)
	if err != nil {
		return err
	}
	change := func(c rgb) []string {
		if setting == "background" {
			p["page"] = c
			return []string{"page"}
		}
		p["accent"], p["accent-hover"], p["tint"] = c, c.mix(strong, 0.15), p["card"].mix(c, 0.08)
		return []string{"accent", "accent-hover", "tint"}
	}
	fault := p.check(change(c))
	if fault == nil {
		return nil
	}
	for share := 0.05; setting == "accent" && share < 1; share += 0.05 {
		if better := c.mix(strong, share); p.check(change(better)) == nil {
			return fmt.Errorf("%w: %s would do", fault, better)
		}
	}
	return fault
}

// check refuses too little contrast of one of the colours to its neighbours.
func (p palette) check(changed []string) error {
	for _, beside := range pairs {
		if !slices.Contains(changed, beside.front) && !slices.Contains(changed, beside.back) {
			continue
		}
		front, back := p[beside.front], p[beside.back]
		if ratio := contrast(front, back); ratio < beside.least {
			return fmt.Errorf("the contrast of %s %s to %s %s is %.2f:1, and at least %.1f:1 is needed",
				meanings[beside.front], front, meanings[beside.back], back, math.Floor(ratio*100)/100, beside.least)
		}
	}
	return nil
}

// css returns the palette as properties.
func (p palette) css() string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&out, " --%s: %s;", name, p[name])
	}
	return out.String() + " "
}
