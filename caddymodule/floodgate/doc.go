// Package floodgate keeps floods of bad tokens from hurting whoever comes with a good one. It knows nothing of HTTP and
// nothing of tokens: it is told of failures and of what passed, and says what a failure and a costly check have to wait for.
//
//   - Every source, which is an address, has a budget of failures (table.go). Within it nothing is ever delayed.
//   - The answer to a failure beyond the budget is held back (hold.go): a client that waits for its answer sends nothing
//     meanwhile. After some more its connection is closed with the answer.
//   - Nothing is held back on a connection over which good tokens come as well, at least two for each bad one (credit.go): it
//     would keep those waiting. Think of a proxy that nobody has called trusted, or of an application with many users.
//   - Checks that cost cryptography go through two narrow lanes (lanes.go), so that a flood never has all processors: one
//     for sources within their budget, and a slow one for the others. Nobody is refused for where they come from: who holds a
//     good token waits in the lane like the flood beside it, and passes.
//
// All of this happens only while there is somebody to protect: with nothing but a flood (gate.go, pressed), failures are
// answered as fast as they can be, because then nobody is hurt by it, and an idle processor is of no use to anybody.
//
// What it takes is bounded: two tables of fixed size, one number for all held answers and one for each lane. There is no
// goroutine, and a failure allocates nothing.
package floodgate
