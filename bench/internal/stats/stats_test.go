package stats

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"none", nil, 0},
		{"one", []float64{3}, 3},
		{"odd", []float64{9, 1, 5}, 5},
		{"even", []float64{4, 1, 2, 100}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			given := slices.Clone(test.values)
			if got := Median(given); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
			if !slices.Equal(given, test.values) {
				t.Errorf("the values were reordered: %v", given)
			}
		})
	}
}

// TestARatioIsThatOfTheRounds: the ratio of the medians would be 1 here, although the ratio of each round is 2.
func TestARatioIsThatOfTheRounds(t *testing.T) {
	itself := func(v float64) float64 { return v }
	if got := RatioOf([]float64{2, 20, 200}, []float64{1, 10, 100}, itself); got != 2 {
		t.Errorf("%v, want 2", got)
	}
	if got := RatioOf([]float64{2, 1}, []float64{0, 1}, itself); got != 1 {
		t.Errorf("with a round that measured nothing: %v, want 1", got)
	}
	if got := MedianOf([]float64{1, 2, 9}, itself); got != 2 {
		t.Errorf("median %v, want 2", got)
	}
}

// TestQuantilesAreRightToOneClass compares the histogram with the sorted durations.
func TestQuantilesAreRightToOneClass(t *testing.T) {
	var h, half Histogram
	var all []time.Duration
	for i := range 20_000 {
		d := time.Duration(math.Exp(float64(i*7919%20_000)/1000)) * time.Nanosecond // 1 ns to 8 min, unordered
		all = append(all, d)
		if i%2 == 0 {
			h.Add(d)
		} else {
			half.Add(d)
		}
	}
	h.Merge(&half)
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(0, int(q*float64(len(all))+0.5)-1)]
		got := h.Quantile(q)
		if diff := math.Abs(float64(got - want)); diff > float64(want)/subclasses {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if h.Count() != len(all) || h.Longest() != all[len(all)-1] {
		t.Errorf("%d durations up to %v, want %d up to %v", h.Count(), h.Longest(), len(all), all[len(all)-1])
	}
}

func TestAnEmptyHistogram(t *testing.T) {
	var h Histogram
	if got := h.Quantile(0.99); got != 0 {
		t.Errorf("%v, want 0", got)
	}
	h.Add(-time.Second)
	if got := h.Quantile(1); got != 0 {
		t.Errorf("of a clock that went back: %v, want 0", got)
	}
	h.Add(math.MaxInt64)
	if got := h.Quantile(1); got < math.MaxInt64/64*63 {
		t.Errorf("of the longest duration: %v", got)
	}
}
