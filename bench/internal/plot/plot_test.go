package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

func example() *Plot {
	return &Plot{
		Title: "Throughput <over> connections", X: "connections", Y: "requests/s", LogX: true,
		Lines: []Line{
			{"bare", []Point{{1, 2000}, {16, 8000}, {256, 8200}}},
			{"protect & more", []Point{{1, 1900}, {16, 7800}, {256, 8100}}},
		},
	}
}

// element is an element of a drawing with its attributes and its text.
type element struct {
	name, text string
	attributes map[string]string
}

func parse(t *testing.T, svg []byte) []element {
	t.Helper()
	var elements []element
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return elements
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{token.Name.Local, "", make(map[string]string)}
			for _, a := range token.Attr {
				e.attributes[a.Name.Local] = a.Value
			}
			elements = append(elements, e)
		case xml.CharData:
			elements[max(0, len(elements)-1)].text += strings.TrimSpace(string(token))
		}
	}
}

func TestAPlotShowsItsLines(t *testing.T) {
	svg := example().SVG()
	if !bytes.Equal(svg, example().SVG()) {
		t.Error("the same curves give two pictures")
	}
	var words, curves []string
	for _, e := range parse(t, svg) {
		switch e.name {
		case "text":
			words = append(words, e.text)
		case "polyline":
			curves = append(curves, e.attributes["points"])
		}
	}
	for _, want := range []string{"Throughput <over> connections", "connections", "requests/s", "bare", "protect & more", "1", "64", "256", "10,000", "0"} {
		if !slices.Contains(words, want) {
			t.Errorf("%q is not among %q", want, words)
		}
	}
	// 1 is at the left end, 256 at the right one and 16 in the middle; 8000 of 10000 is at four fifths of the height.
	first := strings.Fields(curves[0])
	if len(curves) != 2 || !strings.HasPrefix(first[0], "86,") || !strings.HasPrefix(first[1], "411,") || !strings.HasPrefix(first[2], "736,") {
		t.Errorf("curves %q", curves)
	}
	var x, y float64
	if _, err := fmt.Sscanf(first[1], "%f,%f", &x, &y); err != nil || math.Abs(y-(324-0.8*280)) > 0.01 {
		t.Errorf("8000 of 10000 is drawn at %v (%v)", y, err)
	}
}

// TestOddCurves checks that every set of measurements yields a picture, without NaN or infinity in it.
func TestOddCurves(t *testing.T) {
	for _, test := range []struct {
		name string
		plot Plot
	}{
		{"nothing", Plot{}},
		{"one point", Plot{LogX: true, Lines: []Line{{"a", []Point{{4, 4}}}}}},
		{"zeros", Plot{Lines: []Line{{"a", []Point{{0, 0}, {1, 0}}}}}},
		{"millions", Plot{LogX: true, Lines: []Line{{"a", []Point{{1e3, 0.3}, {5e6, 0.5}}}}}},
		{"many lines", Plot{Lines: make([]Line, 20)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			svg := test.plot.SVG()
			parse(t, svg)
			if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
				t.Errorf("%s", svg)
			}
		})
	}
}

func TestTicks(t *testing.T) {
	for _, test := range []struct {
		name string
		got  []float64
		want []float64
	}{
		{"linear", linearTicks(0, 8200), []float64{0, 2000, 4000, 6000, 8000, 10000}},
		{"small", linearTicks(0, 0.5), []float64{0, 0.1, 0.2, 0.30000000000000004, 0.4, 0.5}},
		{"nothing", linearTicks(0, 0), []float64{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}},
		{"powers of two", logTicks(1, 256), []float64{1, 2, 4, 8, 16, 32, 64, 128, 256}},
		{"powers of ten", logTicks(1000, 5_000_000), []float64{1e3, 1e4, 1e5, 1e6}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !slices.Equal(test.got, test.want) {
				t.Errorf("%v, want %v", test.got, test.want)
			}
		})
	}
	for value, want := range map[float64]string{0: "0", 0.30000000000000004: "0.3", 1234567: "1,234,567", 999: "999", 1000.5: "1,000.5"} {
		if got := label(value); got != want {
			t.Errorf("%v is labelled %q, want %q", value, got, want)
		}
	}
}

// TestColoursCanBeReadOnBothGrounds checks the contrast of WCAG 2, 3:1 for graphics.
func TestColoursCanBeReadOnBothGrounds(t *testing.T) {
	for _, colour := range append(slices.Clone(colours), inkColour) {
		for _, ground := range []string{"#ffffff", "#0d1117"} {
			if got := contrast(t, colour, ground); got < 3 {
				t.Errorf("%s on %s: %.2f", colour, ground, got)
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	la, lb := luminance(t, a), luminance(t, b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	var parts [3]int
	if _, err := fmt.Sscanf(colour, "#%02x%02x%02x", &parts[0], &parts[1], &parts[2]); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		part := float64(parts[i]) / 255
		if part <= 0.03928 {
			part /= 12.92
		} else {
			part = math.Pow((part+0.055)/1.055, 2.4)
		}
		sum += weight * part
	}
	return sum
}
