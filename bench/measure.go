package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"
)

// clockTick is the unit of /proc/PID/stat: USER_HZ is 100 on every Linux.
const clockTick = 10 * time.Millisecond

// cpuTime is the time that the process has spent on processors so far, its own and the kernel's for it.
func (p *process) cpuTime() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The second field is the program's name in parentheses; it may hold anything, so fields count from behind it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const utime, stime = 14 - 3, 15 - 3
	if len(fields) <= stime {
		return 0, errors.New("/proc/PID/stat is too short")
	}
	user, err1 := strconv.ParseInt(string(fields[utime]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[stime]), 10, 64)
	return time.Duration(user+system) * clockTick, errors.Join(err1, err2)
}

// residentBytes is the memory that the process holds.
func (p *process) residentBytes() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			kilobytes, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, errors.New("/proc/PID/status has no VmRSS")
}

// cost is what requests cost the gateway.
type cost struct {
	cpu  float64 // microseconds of CPU time each
	rate float64 // requests per second
}

// measure sends one round of a load.
func (g *gateway) measure(ctx context.Context, l load, conns, count int) (cost, error) {
	before, err := g.cpuTime()
	if err != nil {
		return cost{}, err
	}
	elapsed, err := l.send(ctx, conns, count)
	if err != nil {
		return cost{}, err
	}
	after, err := g.cpuTime()
	return cost{
		cpu:  float64((after - before).Microseconds()) / float64(count),
		rate: float64(count) / elapsed.Seconds(),
	}, err
}

// side is one of the things that are compared. Each is held against the first side whose name is against.
type side struct {
	name    string
	against string
	load    load
}

// compare measures the sides in turns and writes a table. Each round starts with another side, so that none is always
// the one that runs after a pause. Ratios are medians of the rounds' own ratios: a slow second is slow for both sides.
func (b *bench) compare(sides []side) error {
	costs := make([][]cost, len(sides))
	for i := range sides {
		if _, err := b.gateway.measure(b.ctx, sides[i].load, b.conns, b.requests/2); err != nil { // warm
			return fmt.Errorf("%s: %w", sides[i].name, err)
		}
	}
	for round := range b.rounds {
		for i := range sides {
			i = (i + round) % len(sides)
			c, err := b.gateway.measure(b.ctx, sides[i].load, b.conns, b.requests)
			if err != nil {
				return fmt.Errorf("%s: %w", sides[i].name, err)
			}
			costs[i] = append(costs[i], c)
		}
	}
	writeRow(b.out, "", "CPU µs/request", "requests/s", "CPU ratio", "rate ratio", "against")
	writeRow(b.out, "---", "---:", "---:", "---:", "---:", "---")
	for i, s := range sides {
		cpu, rate := medianOf(costs[i], func(c cost) float64 { return c.cpu }), medianOf(costs[i], func(c cost) float64 { return c.rate })
		row := []string{s.name, fmt.Sprintf("%.1f", cpu), fmt.Sprintf("%.0f", rate), "", "", ""}
		if base := slices.IndexFunc(sides, func(other side) bool { return other.name == s.against }); base >= 0 {
			var cpus, rates []float64
			for round := range costs[i] {
				cpus = append(cpus, costs[i][round].cpu/costs[base][round].cpu)
				rates = append(rates, costs[i][round].rate/costs[base][round].rate)
			}
			row[3], row[4], row[5] = fmt.Sprintf("%.3f", median(cpus)), fmt.Sprintf("%.3f", median(rates)), s.against
		}
		writeRow(b.out, row...)
	}
	return b.profile(sides)
}

func medianOf(costs []cost, part func(cost) float64) float64 {
	parts := make([]float64, len(costs))
	for i, c := range costs {
		parts[i] = part(c)
	}
	return median(parts)
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// writeRow writes a row of a Markdown table.
func writeRow(w io.Writer, cells ...string) {
	for _, cell := range cells {
		fmt.Fprintf(w, "| %s ", cell)
	}
	fmt.Fprintln(w, "|")
}
