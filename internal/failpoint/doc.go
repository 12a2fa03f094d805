// Package failpoint ends the process at a named point of its work, for tests of what a crash leaves behind. A build without
// the tag failpoint has nothing of it: Hit does nothing and is inlined.
//
// In a build with the tag the environment variable GATEHOUSE_FAILPOINT arms one point of one process:
//
//	kill 1 after commit: redeeming code
//
// is SIGKILL when that point is hit for the first time. Beside kill there are stop, which is SIGSTOP, and delay, which goes on
// after two seconds.
package failpoint
