// Package failpoint ends the process at a named point of its work, to test the effects of a crash. In a build without the tag failpoint,
// Hit does nothing and is inlined.
//
// In a build with the tag, the environment variable GATEHOUSE_FAILPOINT arms one point of one process:
//
//	kill 1 after commit: redeeming code
//
// sends SIGKILL when that point is hit for the first time. The other modes are stop, which sends SIGSTOP, and delay, which continues
// after two seconds.
package failpoint
