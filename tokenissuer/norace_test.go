//go:build !race

package tokenissuer

// raceEnabled tells that the race detector, which allocates, is on.
const raceEnabled = false
