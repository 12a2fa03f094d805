// Package stats is the arithmetic of the benchmark: medians, ratios of rounds, and a histogram of latencies.
package stats

import "slices"

// Median is the middle of the values, or the mean of the two that are in the middle; 0 of none.
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

// MedianOf is the median of a part of each item.
func MedianOf[T any](items []T, part func(T) float64) float64 {
	parts := make([]float64, len(items))
	for i, item := range items {
		parts[i] = part(item)
	}
	return Median(parts)
}

// RatioOf is the median of the rounds' own ratios of a part of a to the same part of b: a slow second is slow for both.
func RatioOf[T any](a, b []T, part func(T) float64) float64 {
	ratios := make([]float64, 0, len(a))
	for i := range min(len(a), len(b)) {
		if base := part(b[i]); base != 0 {
			ratios = append(ratios, part(a[i])/base)
		}
	}
	return Median(ratios)
}
