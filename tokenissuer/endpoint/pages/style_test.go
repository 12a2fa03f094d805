package pages

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestColoursHaveContrast checks every pair of adjacent colours against WCAG 2.2, in both colour schemes: 4.5 for text (1.4.3), 3 for the
// borders of fields and buttons and for the focus ring (1.4.11).
func TestColoursHaveContrast(t *testing.T) {
	style, err := files.ReadFile("style.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, found := strings.Cut(string(style), "@media (prefers-color-scheme: dark)")
	if !found {
		t.Fatal("there is no dark scheme")
	}
	dark, _, _ = strings.Cut(dark, "\n}\n")
	for scheme, colours := range map[string]map[string]string{"light": properties(light), "dark": properties(dark)} {
		for _, pair := range []struct {
			front, back string
			least       float64
		}{
			{"text", "page", 4.5}, {"text", "card", 4.5}, {"text", "tint", 4.5}, {"text", "danger-tint", 4.5},
			{"quiet", "card", 4.5}, {"accent", "card", 4.5}, {"accent", "tint", 4.5},
			{"on-accent", "accent", 4.5}, {"on-accent", "accent-hover", 4.5}, {"danger", "card", 4.5}, {"danger", "danger-tint", 4.5},
			{"field", "card", 3}, {"accent", "page", 3}, {"danger", "page", 3},
		} {
			if got := contrast(t, colours[pair.front], colours[pair.back]); got < pair.least {
				t.Errorf("%s: %s on %s has %.2f, want %.1f", scheme, pair.front, pair.back, got, pair.least)
			}
		}
	}
}

// properties returns the colours of a scheme by name.
func properties(css string) map[string]string {
	colours := make(map[string]string)
	for _, m := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
		colours[m[1]] = m[2]
	}
	return colours
}

// contrast returns the contrast ratio of WCAG 2.2.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// luminance returns the relative luminance of WCAG 2.2.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	if len(colour) != len("#rrggbb") {
		t.Fatalf("%q is no colour", colour)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
