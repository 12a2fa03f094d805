// Package report holds the measurements of the benchmark and writes them as Markdown for people and as JSON for
// programs.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Report is one run.
type Report struct {
	// Conditions describe the machine and the settings of the measurement.
	Conditions []string    `json:"conditions"`
	Scenarios  []*Scenario `json:"scenarios"`
	Goals      []Goal      `json:"goals"`
}

// Scenario is one question with the tables that answer it.
type Scenario struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Seconds float64  `json:"seconds"`
	Notes   []string `json:"notes,omitempty"`
	Tables  []*Table `json:"tables"`
}

// Note adds a sentence after the tables.
func (s *Scenario) Note(format string, arguments ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, arguments...))
}

// Table adds a table. The first column holds names, the others numbers.
func (s *Scenario) Table(columns ...string) *Table {
	t := &Table{Columns: columns}
	s.Tables = append(s.Tables, t)
	return t
}

// Table is a table. Each row has as many cells as there are columns.
type Table struct {
	Columns []string `json:"columns"`
	Rows    [][]Cell `json:"rows"`
}

// Row adds a row. Missing cells at its end are empty.
func (t *Table) Row(name string, cells ...Cell) {
	row := append([]Cell{Text(name)}, cells...)
	for len(row) < len(t.Columns) {
		row = append(row, Cell{})
	}
	t.Rows = append(t.Rows, row)
}

// Cell is a number, a text, or empty.
type Cell struct {
	text   string
	number *float64
}

// Text returns a cell with a text.
func Text(words string) Cell { return Cell{text: words} }

// Number returns a cell that Markdown shows with that many decimals, and JSON with all.
func Number(value float64, decimals int) Cell {
	return Cell{text: strconv.FormatFloat(value, 'f', decimals, 64), number: &value}
}

// MarshalJSON writes a number, a text or null.
func (c Cell) MarshalJSON() ([]byte, error) {
	switch {
	case c.number != nil:
		return json.Marshal(*c.number)
	case c.text == "":
		return []byte("null"), nil
	}
	return json.Marshal(c.text)
}

// Goal is a goal with its measured value.
type Goal struct {
	Scenario string  `json:"scenario"`
	Name     string  `json:"name"`
	Goal     string  `json:"goal"`
	Measured float64 `json:"measured"`
	Unit     string  `json:"unit,omitempty"`
	Reached  bool    `json:"reached"`
	decimals int
}

// AtMost records a value that should not exceed the goal.
func (r *Report) AtMost(scenario, name string, goal, measured float64, decimals int, unit string) {
	r.note(scenario, name, "≤ ", goal, measured, decimals, unit, measured <= goal)
}

// AtLeast records a value that should not be below the goal.
func (r *Report) AtLeast(scenario, name string, goal, measured float64, decimals int, unit string) {
	r.note(scenario, name, "≥ ", goal, measured, decimals, unit, measured >= goal)
}

func (r *Report) note(scenario, name, sign string, goal, measured float64, decimals int, unit string, reached bool) {
	r.Goals = append(r.Goals, Goal{
		Scenario: scenario, Name: name, Goal: sign + strconv.FormatFloat(goal, 'f', -1, 64) + suffix(unit),
		Measured: measured, Unit: unit, Reached: reached, decimals: decimals,
	})
}

func suffix(unit string) string {
	if unit == "" {
		return ""
	}
	return " " + unit
}

// Markdown writes a scenario.
func (s *Scenario) Markdown(w io.Writer) {
	_, _ = fmt.Fprintf(w, "\n### %s\n", s.Title)
	for _, t := range s.Tables {
		t.Markdown(w)
	}
	for _, note := range s.Notes {
		_, _ = fmt.Fprintf(w, "\n%s\n", note)
	}
}

// Markdown writes a table.
func (t *Table) Markdown(w io.Writer) {
	_, _ = fmt.Fprintln(w)
	writeRow(w, t.Columns)
	rule := make([]string, len(t.Columns))
	for i := range rule {
		if rule[i] = "---:"; i == 0 {
			rule[i] = "---"
		}
	}
	writeRow(w, rule)
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = c.text
		}
		writeRow(w, cells)
	}
}

// Summary writes the goals with the measured values.
func (r *Report) Summary(w io.Writer) {
	if len(r.Goals) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w, "\n### Goals")
	t := &Table{Columns: []string{"", "goal", "measured", "reached", "scenario"}}
	for _, g := range r.Goals {
		reached := "no"
		if g.Reached {
			reached = "yes"
		}
		t.Row(g.Name, Text(g.Goal), Text(strconv.FormatFloat(g.Measured, 'f', g.decimals, 64)+suffix(g.Unit)), Text(reached), Text(g.Scenario))
	}
	t.Markdown(w)
}

// JSON writes the whole report.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func writeRow(w io.Writer, cells []string) {
	_, _ = fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
}
