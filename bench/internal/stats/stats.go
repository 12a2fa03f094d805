// Package stats does the benchmark's arithmetic: medians, ratios of rounds, and a histogram of latencies.
package stats

import "slices"

// Median returns the middle value, or the mean of the two middle values. It returns 0 if there are none.
func Median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// MedianOf returns the median of a part of each item.
func MedianOf[T any](items []T, part func(T) float64) float64 {
	parts := make([]float64, len(items))
	for i, item := range items {
		parts[i] = part(item)
	}
	return Median(parts)
}

// RatioOf returns the median of the ratios of each round, of a part of a to the same part of b. A slow second is slow
// for both.
func RatioOf[T any](a, b []T, part func(T) float64) float64 {
	ratios := make([]float64, 0, len(a))
	for i := range min(len(a), len(b)) {
		if base := part(b[i]); base != 0 {
			ratios = append(ratios, part(a[i])/base)
		}
	}
	return Median(ratios)
}
