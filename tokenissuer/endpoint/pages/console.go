package pages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/words"
)

// Console is a page of the operator's console. It is made of blocks, whose texts are the keys `console.*`.
type Console struct {
	// Title is the page's h1, and About the name of the thing that the page is about, or "".
	Title string
	About string
	// Places are the sections of the console, and Operator who is signed in.
	Places   []ConsoleLink
	Operator Viewer
	// SignOutURL is the sign-out page.
	SignOutURL string
	// Notices are about the previous change, or about the form that was sent.
	Notices []ConsoleNotice
	Blocks  []Block
}

func (Console) template() string  { return "console" }
func (c Console) heading() string { return c.Title }
func (c Console) failed() bool {
	for _, n := range c.Notices {
		if n.Failed {
			return true
		}
	}
	return false
}

// Phrase is a text with values in place of its placeholders. Text is shown as it is, for words that have no text in the catalogues. The
// zero value is empty.
type Phrase struct {
	Key    string
	Values []string // names of placeholders, each followed by its value
	Text   string
}

// Say returns the phrase of a text. Values are names of placeholders, each followed by its value.
func Say(key string, values ...string) Phrase { return Phrase{Key: key, Values: values} }

// IsEmpty reports whether the phrase says nothing.
func (p Phrase) IsEmpty() bool { return p.Key == "" && p.Text == "" }

// ConsoleNotice is a message at the top of a page.
type ConsoleNotice struct {
	Phrase Phrase
	// Failed reports that nothing was changed.
	Failed bool
	// Link leads on; nil: there is nothing to do.
	Link *ConsoleLink
}

// ConsoleLink leads to another page. Current marks the place that the reader is at.
type ConsoleLink struct {
	Phrase  Phrase
	URL     string
	Current bool
	// Danger marks a link to a change that ends something. NewTab opens it in another tab.
	Danger, NewTab bool
}

// Block is a part of a page: a heading and words, and then those of the others that are set.
type Block struct {
	ID    string
	Title Phrase
	Words []Phrase
	Facts []Fact
	Table *Table
	Form  *ConsoleForm
	Links []ConsoleLink
	// Copied are texts to be copied.
	Copied []Copied
	Chart  *Chart
}

// Fact is a name with its values.
type Fact struct {
	Name  Phrase
	Cells []Cell
}

// Cell is a value: text, a phrase, or a time. It is a link if URL is set.
type Cell struct {
	Text   string
	Phrase Phrase
	At     time.Time
	URL    string
	// Code shows the text as code. Tone is good, bad, quiet or empty.
	Code bool
	Tone string
}

// Table is a list of things.
type Table struct {
	Head []Phrase
	Rows []Row
	// Empty is shown in place of a table without rows.
	Empty Phrase
	// NextURL leads to the next page; empty: this is the last one. A page without rows can have one: a search looks at a bounded number of
	// things at a time.
	NextURL string
}

// Row is a thing in a table. Its cells are in the order of the head; the first one names the thing. More is what a reader unfolds.
type Row struct {
	Cells [][]Cell
	More  []Fact
}

// ConsoleForm is a form with fields.
type ConsoleForm struct {
	Action string
	// Get makes it a search, whose fields are in the address of its results.
	Get    bool
	Fields []ConsoleField
	Submit Phrase
	Danger bool
	// CancelURL is where a person goes who does not want to send it; empty: nowhere.
	CancelURL string
}

// ConsoleField is a field of a form. Kind is text, lines, password, choice, check or hidden.
type ConsoleField struct {
	Name, Kind, Value string
	Label             Phrase
	Help              Phrase
	// Fault says why the value was refused. Now is the value as another operator has changed it meanwhile.
	Fault, Now Phrase
	Choices    []Choice
	Required   bool
	// Checked is for check.
	Checked bool
	// Hint names what a browser may fill in (HTML, autocomplete). Default: off.
	Hint string
}

// Choice is a value to choose.
type Choice struct {
	Value  string
	Phrase Phrase
	Chosen bool
}

// Copied is a text to be copied, such as a secret that is shown once.
type Copied struct {
	Name Phrase
	Text string
}

// Chart shows two numbers for each of some times, the first first.
type Chart struct {
	Title Phrase
	// Upper and Lower name the numbers.
	Upper, Lower Phrase
	Bars         []Bar
}

// Bar is a time with its two numbers.
type Bar struct {
	At           time.Time
	Upper, Lower int
}

// chartHeight is the height of either half of a chart, in its units; a bar is barWidth wide.
const chartHeight, barWidth = 60, 12

// DrawnBar is a bar as it is drawn.
type DrawnBar struct {
	X, UpperY, UpperHeight, LowerHeight int
	Bar
}

// Draw returns the bars as they are drawn, the highest as high as the chart.
func (c Chart) Draw() []DrawnBar {
	most := 1
	for _, b := range c.Bars {
		most = max(most, b.Upper, b.Lower)
	}
	drawn := make([]DrawnBar, len(c.Bars))
	for i, b := range c.Bars {
		upper, lower := height(b.Upper, most), height(b.Lower, most)
		drawn[i] = DrawnBar{X: i*barWidth + 1, UpperY: chartHeight - upper, UpperHeight: upper, LowerHeight: lower, Bar: b}
	}
	return drawn
}

// height returns the height of a bar: at least 2 unless there is nothing.
func height(n, most int) int {
	if n == 0 {
		return 0
	}
	return max(2, n*chartHeight/most)
}

// Box returns the viewBox of the chart.
func (c Chart) Box() string {
	return fmt.Sprintf("0 0 %d %d", max(1, len(c.Bars))*barWidth, 2*chartHeight+2)
}

// Total returns the sums of both numbers.
func (c Chart) Total() (sum Bar) {
	for _, b := range c.Bars {
		sum.Upper += b.Upper
		sum.Lower += b.Lower
	}
	return sum
}

// consoleView are the words of a page of the console in its language.
type consoleView struct{ view view }

// Console returns what only pages of the console say.
func (v view) Console() consoleView { return consoleView{v} }

// Text returns a text.
func (c consoleView) Text(key string) (string, error) { return c.view.Text(key) }

// Moment formats a time.
func (c consoleView) Moment(at time.Time) words.Moment { return c.view.Moment(at) }

// Piece is a part of a phrase: words, or a value, which is set apart.
type Piece struct {
	Text  string
	Value bool
}

// Pieces returns the parts of a phrase in the page's language.
func (c consoleView) Pieces(p Phrase) ([]Piece, error) {
	if p.Key == "" {
		return []Piece{{Text: p.Text, Value: true}}, nil
	}
	text, err := c.view.Text(p.Key)
	if err != nil {
		return nil, err
	}
	var pieces []Piece
	for text != "" {
		before, rest, found := strings.Cut(text, "{")
		pieces = append(pieces, Piece{Text: before})
		if !found {
			break
		}
		name, after, _ := strings.Cut(rest, "}")
		i := slices.Index(p.Values, name)
		if i < 0 || i%2 != 0 || i+1 == len(p.Values) {
			return nil, fmt.Errorf("the text %q has no value for %s", p.Key, name)
		}
		pieces, text = append(pieces, Piece{Text: p.Values[i+1], Value: true}), after
	}
	return pieces, nil
}

// Spoken returns a phrase as plain text, for attributes.
func (c consoleView) Spoken(p Phrase) (string, error) {
	pieces, err := c.Pieces(p)
	var b strings.Builder
	for _, piece := range pieces {
		b.WriteString(piece.Text)
	}
	return b.String(), err
}

// Lines returns how many lines the text is shown in.
func (c Copied) Lines() int { return min(12, 1+strings.Count(c.Text, "\n")+len(c.Text)/80) }

// The parts of a page, with the view that has their words.
type (
	viewedCells struct {
		View  consoleView
		Cells []Cell
	}
	viewedCell struct {
		View consoleView
		Cell Cell
	}
	viewedForm struct {
		View consoleView
		// Number distinguishes the forms of a page.
		Number int
		Form   ConsoleForm
	}
	described struct {
		Fault bool
		IDs   string
	}
)

// With, Of and FormOf hand parts of a page to a template.
func (c consoleView) With(cells []Cell) viewedCells { return viewedCells{c, cells} }
func (c consoleView) Of(cell Cell) viewedCell       { return viewedCell{c, cell} }
func (c consoleView) FormOf(number int, form ConsoleForm) viewedForm {
	return viewedForm{c, number, form}
}

// Describe returns the ids of what is said about a field.
func (f viewedForm) Describe(id string, field ConsoleField) described {
	var ids []string
	for _, part := range []struct {
		phrase Phrase
		name   string
	}{{field.Fault, "fault"}, {field.Now, "now"}, {field.Help, "help"}} {
		if !part.phrase.IsEmpty() {
			ids = append(ids, id+"-"+part.name)
		}
	}
	return described{!field.Fault.IsEmpty(), strings.Join(ids, " ")}
}
