package stats

import (
	"math/bits"
	"time"
)

// subclasses is the number of classes between a duration and its double. It makes a quantile accurate to 1/64.
const (
	subclassBits = 6
	subclasses   = 1 << subclassBits
)

// Histogram counts durations in classes whose width grows with the duration. Its size does not depend on their
// number. The zero value is empty. It is not safe for concurrent use.
type Histogram struct {
	counts  [(64 - subclassBits + 1) * subclasses]uint32
	total   int
	longest time.Duration
}

// Add counts a duration. A negative one counts as zero.
func (h *Histogram) Add(d time.Duration) {
	h.counts[class(uint64(max(d, 0)))]++
	h.total++
	h.longest = max(h.longest, d)
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.longest = max(h.longest, other.longest)
}

// Count returns the number of durations.
func (h *Histogram) Count() int { return h.total }

// Longest returns the longest duration.
func (h *Histogram) Longest() time.Duration { return h.longest }

// Quantile returns the duration that a fraction q of all, such as 0.99, does not exceed. It returns 0 if the
// histogram is empty.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := max(1, int(q*float64(h.total)+0.5))
	seen := 0
	for i, n := range h.counts {
		if seen += int(n); seen >= rank {
			return min(middle(i), h.longest)
		}
	}
	return h.longest
}

// class returns the class of a number of nanoseconds. Below 128 each number has its own class; above, the highest
// seven bits determine it.
func class(nanoseconds uint64) int {
	shift := max(0, bits.Len64(nanoseconds)-subclassBits-1)
	return shift<<subclassBits + int(nanoseconds>>shift) //lint:ignore gosec at most 7 bits
}

// middle returns the duration in the middle of a class.
func middle(class int) time.Duration {
	if class < 2*subclasses {
		return time.Duration(class)
	}
	shift := class>>subclassBits - 1
	low := (class&(subclasses-1) + subclasses) << shift
	return time.Duration(low + 1<<shift/2)
}
