package stats

import (
	"math/bits"
	"time"
)

// subclasses is the number of classes between a duration and its double: a quantile is right to 1/64.
const (
	subclassBits = 6
	subclasses   = 1 << subclassBits
)

// Histogram counts durations in classes whose width grows with the duration, so that it takes the same memory however
// many there are. The zero value is empty. It is for one goroutine.
type Histogram struct {
	counts  [(64 - subclassBits + 1) * subclasses]uint32
	total   int
	longest time.Duration
}

// Add counts a duration. A negative one counts as none.
func (h *Histogram) Add(d time.Duration) {
	h.counts[class(uint64(max(d, 0)))]++
	h.total++
	h.longest = max(h.longest, d)
}

// Merge adds what another histogram has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.longest = max(h.longest, other.longest)
}

// Count is the number of durations.
func (h *Histogram) Count() int { return h.total }

// Longest is the longest duration.
func (h *Histogram) Longest() time.Duration { return h.longest }

// Quantile is the duration that the part q of all, such as 0.99, does not exceed; 0 of none.
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

// class is the number of the class that nanoseconds belong to: below 128 each has its own, and above the highest seven
// bits decide.
func class(nanoseconds uint64) int {
	shift := max(0, bits.Len64(nanoseconds)-subclassBits-1)
	return shift<<subclassBits + int(nanoseconds>>shift) //nolint:gosec // at most 7 bits
}

// middle is the duration in the middle of a class.
func middle(class int) time.Duration {
	if class < 2*subclasses {
		return time.Duration(class)
	}
	shift := class>>subclassBits - 1
	low := (class&(subclasses-1) + subclasses) << shift
	return time.Duration(low + 1<<shift/2)
}
