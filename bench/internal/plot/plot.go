// Package plot draws curves as SVG: axes, ticks, a legend. Equal input gives equal bytes. The background is
// transparent and the colours have medium lightness, so a picture is readable on a light page and on a dark one.
package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Point is one measurement.
type Point struct{ X, Y float64 }

// Line is a curve with its name in the legend.
type Line struct {
	Name   string
	Points []Point
}

// Plot is a picture. The vertical axis begins at 0.
type Plot struct {
	Title, X, Y string
	// LogX spaces powers of two or ten evenly. All X must then be above 0.
	LogX  bool
	Lines []Line
}

const (
	width                 = 760
	left, right, top      = 86, 24, 44
	ground                = 324 // y of the horizontal axis
	legend, legendRow     = 58, 20
	legendColumns         = 3
	inkColour, gridColour = "#768390", "#76839055"
)

// colours are the colours of the lines, each with a contrast of at least 3:1 to white and to #0d1117.
var colours = []string{"#8f6adf", "#1f83d8", "#bf7300", "#1a9a55", "#e0487c", "#808a12"}

// dashes distinguish the lines without colours.
var dashes = []string{"", "7 4", "2 3", "9 3 2 3", "4 2", "1 4"}

// SVG draws the picture.
func (p *Plot) SVG() []byte {
	var b bytes.Buffer
	rows := (len(p.Lines) + legendColumns - 1) / legendColumns
	height := ground + legend + rows*legendRow
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-label="%s" `+
		`font-family="system-ui, sans-serif" font-size="13" fill="%s">`+"\n", width, height, escape(p.Title), inkColour)
	text(&b, left, 26, "start", p.Title, ` font-size="16" font-weight="600"`)
	x, y := p.axes()
	y.draw(&b, false, p.Y)
	x.draw(&b, true, p.X)
	for i, line := range p.Lines {
		p.line(&b, x, y, i, line)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (p *Plot) axes() (x, y axis) {
	lowX, highX, highY := math.Inf(1), math.Inf(-1), 0.0
	for _, line := range p.Lines {
		for _, point := range line.Points {
			lowX, highX, highY = min(lowX, point.X), max(highX, point.X), max(highY, point.Y)
		}
	}
	if lowX > highX { // there are no measurements
		lowX, highX = 1, 2
	}
	x = axis{low: lowX, high: highX, log: p.LogX, from: left, to: width - right}
	if p.LogX {
		x.ticks = logTicks(lowX, highX)
	} else {
		x.ticks = linearTicks(lowX, highX)
	}
	y = axis{from: ground, to: top, ticks: linearTicks(0, highY)}
	y.high = y.ticks[len(y.ticks)-1]
	return x, y
}

func (p *Plot) line(b *bytes.Buffer, x, y axis, i int, line Line) {
	colour, dash := colours[i%len(colours)], dashes[(i+i/len(colours))%len(dashes)]
	var points []string
	for _, point := range line.Points {
		points = append(points, coordinate(x.at(point.X))+","+coordinate(y.at(point.Y)))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2.2" stroke-linejoin="round" stroke-dasharray="%s"/>`+"\n",
		strings.Join(points, " "), colour, dash)
	for _, point := range line.Points {
		fmt.Fprintf(b, `<circle cx="%s" cy="%s" r="3" fill="%s"/>`+"\n", coordinate(x.at(point.X)), coordinate(y.at(point.Y)), colour)
	}
	const columnWidth = (width - left - right) / legendColumns
	legendX, legendY := float64(left+i%legendColumns*columnWidth), float64(ground+legend+i/legendColumns*legendRow)
	fmt.Fprintf(b, `<line x1="%s" y1="%s" x2="%s" y2="%[2]s" stroke="%[4]s" stroke-width="2.2" stroke-dasharray="%[5]s"/>`+"\n",
		coordinate(legendX), coordinate(legendY-4), coordinate(legendX+28), colour, dash)
	text(b, legendX+36, legendY, "start", line.Name, "")
}

// axis maps values to coordinates.
type axis struct {
	low, high float64
	log       bool
	from, to  float64
	ticks     []float64
}

func (a axis) at(value float64) float64 {
	low, high := a.low, a.high
	if a.log {
		value, low, high = math.Log(value), math.Log(low), math.Log(high)
	}
	if high == low {
		return (a.from + a.to) / 2
	}
	return a.from + (a.to-a.from)*(value-low)/(high-low)
}

// draw draws the ticks with their labels, and the title.
func (a axis) draw(b *bytes.Buffer, horizontal bool, title string) {
	for _, tick := range a.ticks {
		at := a.at(tick)
		if horizontal {
			grid(b, at, top, at, ground)
			text(b, at, ground+18, "middle", label(tick), "")
		} else {
			grid(b, left, at, width-right, at)
			text(b, left-8, at+4, "end", label(tick), "")
		}
	}
	if horizontal {
		text(b, (left+width-right)/2, ground+36, "middle", title, "")
	} else {
		middle := float64(ground+top) / 2
		text(b, 16, middle, "middle", title, fmt.Sprintf(` transform="rotate(-90 16 %s)"`, coordinate(middle)))
	}
}

func grid(b *bytes.Buffer, x1, y1, x2, y2 float64) {
	fmt.Fprintf(b, `<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s"/>`+"\n",
		coordinate(x1), coordinate(y1), coordinate(x2), coordinate(y2), gridColour)
}

func text(b *bytes.Buffer, x, y float64, anchor, words, attributes string) {
	fmt.Fprintf(b, `<text x="%s" y="%s" text-anchor="%s"%s>%s</text>`+"\n", coordinate(x), coordinate(y), anchor, attributes, escape(words))
}

// linearTicks returns four to eight round numbers. The first is at or below low, the last at or above high.
func linearTicks(low, high float64) []float64 {
	if high <= low {
		high = low + 1
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, factor := range []float64{1, 2, 2.5, 5, 10} {
		if (high-low)/(step*factor) <= 6 {
			step *= factor
			break
		}
	}
	var ticks []float64
	for i := math.Floor(low / step); ; i++ {
		ticks = append(ticks, i*step)
		if i*step >= high {
			return ticks
		}
	}
}

// logTicks returns powers of two, or powers of ten where those would be too many.
func logTicks(low, high float64) []float64 {
	base := 2.0
	if high/low > 1024 {
		base = 10
	}
	var ticks []float64
	for tick := math.Pow(base, math.Ceil(math.Log(low)/math.Log(base)-1e-9)); tick <= high*(1+1e-9); tick *= base {
		ticks = append(ticks, tick)
	}
	return ticks
}

// label formats a number with commas between the thousands.
func label(value float64) string {
	words := strconv.FormatFloat(value, 'f', -1, 64)
	if rounded := strconv.FormatFloat(value, 'f', 6, 64); len(words) > len(rounded) {
		words = strings.TrimRight(strings.TrimRight(rounded, "0"), ".")
	}
	whole, fraction, dotted := strings.Cut(words, ".")
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if dotted {
		return whole + "." + fraction
	}
	return whole
}

// coordinate formats a number to a hundredth of a pixel, which makes pictures of equal measurements equal.
func coordinate(value float64) string {
	return strconv.FormatFloat(math.Round(value*100)/100, 'f', -1, 64)
}

func escape(words string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(words)) // a buffer never fails
	return b.String()
}
