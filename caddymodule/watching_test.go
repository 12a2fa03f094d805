package caddymodule

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"gopkg.in/yaml.v3"
)

// metricLabels is a registry that remembers the labels of what is registered, by name.
type metricLabels map[string][]string

var fullName = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

func (d metricLabels) Register(c prometheus.Collector) error {
	all := make(chan *prometheus.Desc)
	go func() { defer close(all); c.Describe(all) }()
	for one := range all {
		found := fullName.FindStringSubmatch(one.String())
		d[found[1]] = strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' })
	}
	return nil
}

func (d metricLabels) MustRegister(...prometheus.Collector) { panic("registerMetrics takes errors") }
func (d metricLabels) Unregister(prometheus.Collector) bool { panic("nothing is unregistered") }

// metricsOf returns the labels of every metric that a node registers, by name. Those that a running node exposes are among them.
func metricsOf(t *testing.T) metricLabels {
	t.Helper()
	all := metricLabels{}
	check(t, registerMetrics(all))
	g := startProviders(t, atProvider("corp", newLyingProvider(t), "link verified_email"))
	g.token()
	g.get("/api/x", "")
	series := regexp.MustCompile(`^(gatehouse_\w+)(?:\{(.*)\})?$`)
	label := regexp.MustCompile(`(\w+)="`)
	measured := g.measured()
	for one := range measured {
		found := series.FindStringSubmatch(one)
		var labels []string
		for _, l := range label.FindAllStringSubmatch(found[2], -1) {
			labels = append(labels, l[1])
		}
		if want, has := all[found[1]]; !has || !slices.Equal(slices.Sorted(slices.Values(labels)), slices.Sorted(slices.Values(want))) {
			t.Errorf("a node exposes %s, and registers it with %v: %t", one, want, has)
		}
	}
	if len(measured) < 20 {
		t.Fatalf("a node exposes %d series", len(measured))
	}
	return all
}

var (
	metricAsked  = regexp.MustCompile(`(gatehouse_\w+)(?:\{([^}]*)\})?`)
	labelMatcher = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	labelGroup   = regexp.MustCompile(`\b(?:by|without|on|ignoring) \(([^)]*)\)`)
	labelShown   = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}`)
)

// hold checks that each metric in an expression exists, and each label in it and in a text for it.
func (d metricLabels) hold(t *testing.T, where, expr, text string) {
	t.Helper()
	labels := map[string]bool{"job": true, "instance": true}
	for _, found := range metricAsked.FindAllStringSubmatch(expr, -1) {
		own, has := d[found[1]]
		if !has {
			t.Errorf("%s asks for %s, which is not there", where, found[1])
		}
		for _, m := range labelMatcher.FindAllStringSubmatch(found[2], -1) {
			if !slices.Contains(own, m[1]) && m[1] != "job" && m[1] != "instance" {
				t.Errorf("%s asks for the label %s of %s", where, m[1], found[1])
			}
		}
		for _, l := range own {
			labels[l] = true
		}
	}
	for _, found := range labelGroup.FindAllStringSubmatch(expr, -1) {
		for name := range strings.SplitSeq(found[1], ",") {
			if name = strings.TrimSpace(name); !labels[name] {
				t.Errorf("%s groups by %s", where, name)
			}
		}
	}
	for _, found := range labelShown.FindAllStringSubmatch(text, -1) {
		if !labels[found[1]] {
			t.Errorf("%s shows the label %s", where, found[1])
		}
	}
}

// TestOT7TheDashboardAsksForWhatIsThere: the dashboard, the alert rules and the table in docs/operations.md ask for a metric or a label that no
// node has, or leave a metric out → this test fails.
func TestOT7TheDashboardAsksForWhatIsThere(t *testing.T) {
	all := metricsOf(t)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct{ List []struct{ Definition string } }
	}
	text, err := os.ReadFile("../packaging/grafana/gatehouse.json")
	check(t, err)
	check(t, json.Unmarshal(text, &dashboard))
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all.hold(t, "the panel "+p.Title, target.Expr, target.LegendFormat)
		}
	}
	for _, v := range dashboard.Templating.List {
		all.hold(t, "a variable", v.Definition, "")
	}
	page, err := os.ReadFile("../docs/operations.md")
	check(t, err)
	for name := range maps.Keys(all) {
		if !strings.Contains(string(text), name+"{") {
			t.Errorf("the dashboard does not show %s", name)
		}
		if !regexp.MustCompile("`" + name + "[`{]").Match(page) {
			t.Errorf("docs/operations.md does not explain %s", name)
		}
	}
	for _, found := range regexp.MustCompile("`(gatehouse_\\w+)").FindAllSubmatch(page, -1) {
		if _, has := all[string(found[1])]; !has {
			t.Errorf("docs/operations.md tells of %s, which is not there", found[1])
		}
	}
}

// TestOT8EveryAlertHasARunbook: an alert that asks for a metric or a label that no node has, or whose runbook is no section of
// docs/operations.md → this test fails.
func TestOT8EveryAlertHasARunbook(t *testing.T) {
	all := metricsOf(t)
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	text, err := os.ReadFile("../packaging/prometheus/alerts.yaml")
	check(t, err)
	check(t, yaml.Unmarshal(text, &file))
	page, err := os.ReadFile("../docs/operations.md")
	check(t, err)
	sections := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^##+ (.+)$`).FindAllSubmatch(page, -1) {
		sections[strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(string(heading[1])), ""), " ", "-")] = true
	}
	rules := 0
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			rules++
			all.hold(t, r.Alert, r.Expr, r.Annotations["summary"])
			if !metricAsked.MatchString(r.Expr) {
				t.Errorf("%s asks for none of our metrics", r.Alert)
			}
			if _, section, _ := strings.Cut(r.Annotations["runbook_url"], "/docs/operations.md#"); !sections[section] {
				t.Errorf("the runbook of %s is %q", r.Alert, r.Annotations["runbook_url"])
			}
		}
	}
	if rules < 15 {
		t.Errorf("%d rules", rules)
	}
}
