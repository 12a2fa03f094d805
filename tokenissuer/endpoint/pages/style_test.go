package pages

import (
	"math"
	"testing"
)

// TestColoursHaveContrast checks every pair of adjacent colours against WCAG 2.2, in both colour schemes.
func TestColoursHaveContrast(t *testing.T) {
	style, err := files.ReadFile("style.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, err := palettes(style)
	if err != nil {
		t.Fatal(err)
	}
	for scheme, colours := range map[string]palette{"light": light, "dark": dark} {
		for _, pair := range pairs {
			_, front := colours[pair.front]
			if _, back := colours[pair.back]; !front || !back {
				t.Fatalf("%s: there is no colour %s or %s", scheme, pair.front, pair.back)
			}
			if got := contrast(colours[pair.front], colours[pair.back]); got < pair.least {
				t.Errorf("%s: %s on %s has %.2f, want %.1f", scheme, pair.front, pair.back, got, pair.least)
			}
		}
	}
}

// TestContrastIsThatOfWCAG compares with ratios that are published for well-known colours.
func TestContrastIsThatOfWCAG(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want float64
	}{
		{"#000000", "#ffffff", 21}, {"#ffffff", "#ffffff", 1}, {"#767676", "#ffffff", 4.54}, {"#777777", "#ffffff", 4.48}, {"ff0000", "FFFFFF", 4},
		{"0000ff", "ffffff", 8.59},
	} {
		a, errA := parseColour(test.a)
		b, errB := parseColour(test.b)
		if errA != nil || errB != nil || math.Abs(contrast(a, b)-test.want) > 0.005 || contrast(a, b) != contrast(b, a) {
			t.Errorf("%s on %s has %.3f, want %.2f (%v, %v)", test.a, test.b, contrast(a, b), test.want, errA, errB)
		}
	}
}
