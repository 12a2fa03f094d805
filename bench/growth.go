package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/gatehouse-auth/gatehouse/bench/internal/growth"
	"github.com/gatehouse-auth/gatehouse/bench/internal/plot"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
)

// leastFamilies is the size of the store that the others are compared with.
const leastFamilies = 1000

// growingSizes returns the sizes to measure. The last is the number of the flag.
func (o options) growingSizes() []int {
	sizes := slices.DeleteFunc([]int{leastFamilies, 100_000, 1_000_000}, func(n int) bool { return n > leastFamilies && n >= o.families })
	return append(sizes, max(o.families, leastFamilies+1))
}

// growSQLite measures which operations slow down as an SQLite file fills.
func (b *bench) growSQLite() { b.grow("sqlite", nil) }

// growPostgres does the same with a database server.
func (b *bench) growPostgres() { b.grow("postgres", must(b.database()).Database) }

func (b *bench) grow(name string, dsn func() (string, error)) {
	o := growth.Options{Caddy: b.program(b.caddy), Sizes: b.growingSizes(), Real: 1200, Rounds: 3, DSN: dsn}
	o.Caddy.Dir = b.dir
	if b.quick {
		o.Real, o.Rounds = 200, 2
	}
	points := must(growth.Run(b.ctx, o, os.Stderr))
	last := points[len(points)-1]
	b.growthTables(points)
	b.report.Note("Each operation is sent %s apart; the best of %d rounds counts.", growth.Pace, o.Rounds)
	b.draw("latency-over-families-"+name+".svg", growthPlot(points))
	b.atMost("start", 1000, milliseconds(last.Start), 0, fmt.Sprintf("ms with %d families", last.Families))
	b.atMost("memory", 256, float64(last.Used)/(1<<20), 1, fmt.Sprintf("MiB RSS with %d families and %d revocations", last.Families, last.Revocations))
	for i, o := range last.Operations {
		first := points[0].Operations[i]
		b.atMost(o.Name+", CPU", 1.3, float64(o.CPU)/float64(first.CPU), 2, "× that with 1000 families")
		b.atMost(o.Name+", p50", 1.3, float64(o.P50)/float64(first.P50), 2, "× that with 1000 families")
	}
}

func (b *bench) growthTables(points []growth.Point) {
	table := b.report.Table("families", "revocations", "filled in s", "ready after ms", "RSS MiB after the start", "after all operations", "3 s later")
	for _, p := range points {
		table.Row(fmt.Sprint(p.Families), report.Number(float64(p.Revocations), 0), report.Number(p.Filling.Seconds(), 1),
			report.Number(milliseconds(p.Start), 0), mebibytes(p.Fresh), mebibytes(p.Used), mebibytes(p.Kept))
	}
	b.latencyTable(points, "", func(p growth.Point) []growth.Latency { return p.Operations })
	b.latencyTable(points, "while housekeeping drops a backlog", func(p growth.Point) []growth.Latency { return p.Busy })
}

// latencyTable has a row for each operation, and three columns for each size.
func (b *bench) latencyTable(points []growth.Point, title string, of func(growth.Point) []growth.Latency) {
	columns := []string{title}
	for _, p := range points {
		columns = append(columns, fmt.Sprintf("%d families: CPU µs", p.Families), "p50 ms", "p99 ms")
	}
	table := b.report.Table(columns...)
	for i, o := range of(points[0]) {
		var row []report.Cell
		for _, p := range points {
			l := of(p)[i]
			row = append(row, report.Number(microseconds(l.CPU), 0), report.Number(milliseconds(l.P50), 2), report.Number(milliseconds(l.P99), 2))
		}
		table.Row(o.Name, row...)
	}
}

// growthPlot plots the latency of each operation over the number of families.
func growthPlot(points []growth.Point) *plot.Plot {
	picture := &plot.Plot{Title: "Latency over stored families, median", X: "families", Y: "ms", LogX: true}
	for i, o := range points[0].Operations {
		line := plot.Line{Name: o.Name}
		for _, p := range points {
			line.Points = append(line.Points, plot.Point{X: float64(p.Families), Y: milliseconds(p.Operations[i].P50)})
		}
		picture.Lines = append(picture.Lines, line)
	}
	return picture
}
