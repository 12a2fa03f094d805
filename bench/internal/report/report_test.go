package report

import (
	"encoding/json"
	"strings"
	"testing"
)

func example() *Report {
	s := &Scenario{Name: "proxy", Title: "What `protect` adds"}
	t := s.Table("", "CPU µs/request", "against")
	t.Row("bare", Number(181.2345, 1))
	t.Row("protect", Number(190, 1), Text("bare & <again>"))
	s.Note("The load took %d %%.", 30)
	r := &Report{Conditions: []string{"4 processors"}, Scenarios: []*Scenario{s}}
	r.AtMost("proxy", "warm tokens", 1.03, 1.0345, 3, "of bare")
	r.AtLeast("issue", "tokens", 18000, 18001.4, 0, "a second")
	return r
}

func TestMarkdown(t *testing.T) {
	r := example()
	var b strings.Builder
	r.Scenarios[0].Markdown(&b)
	r.Summary(&b)
	const want = "\n### What `protect` adds\n" + `
|  | CPU µs/request | against |
| --- | ---: | ---: |
| bare | 181.2 |  |
| protect | 190.0 | bare & <again> |

The load took 30 %.

### Goals

|  | goal | measured | reached | scenario |
| --- | ---: | ---: | ---: | ---: |
| warm tokens | ≤ 1.03 of bare | 1.034 of bare | no | proxy |
| tokens | ≥ 18000 a second | 18001 a second | yes | issue |
`
	if b.String() != want {
		t.Errorf("%s\nwant %s", b.String(), want)
	}
}

func TestJSONKeepsTheNumbers(t *testing.T) {
	var b strings.Builder
	if err := example().JSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Conditions []string
		Scenarios  []struct {
			Name   string
			Tables []struct{ Rows [][]any }
		}
		Goals []struct {
			Goal     string
			Measured float64
			Reached  bool
		}
	}
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	rows := got.Scenarios[0].Tables[0].Rows
	if rows[0][0] != "bare" || rows[0][1] != 181.2345 || rows[0][2] != nil || rows[1][2] != "bare & <again>" {
		t.Errorf("rows %v", rows)
	}
	if got.Goals[0].Measured != 1.0345 || got.Goals[0].Reached || !got.Goals[1].Reached || got.Goals[1].Goal != "≥ 18000 a second" {
		t.Errorf("goals %+v", got.Goals)
	}
}
