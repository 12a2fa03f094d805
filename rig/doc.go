// Package rig runs real Gatehouse nodes as processes of their own, so that tests can kill them. Only tests import it.
//
//	func TestMain(m *testing.M) { rig.Main(m) } // the test binary is the node's program as well
//
//	node := rig.Start(t, rig.Setup{})           // on SQLite, serving
//	node.Kill()                                 // SIGKILL
//	node.Restart()                              // at the same address, on the same data
//
// A node is Caddy with Gatehouse in it, configured by a Caddyfile as an operator writes one (caddyfile.go). Several nodes on
// one PostgreSQL have a Balancer before them, which remembers nobody. A Browser and an Application walk the flows over the
// wire (browser.go, application.go); what an answer says is in their books only once they have received all of it.
//
// The crash rig itself, which `make crash` runs, is in the tests of the package: crash_test.go is the supervisor,
// worker_test.go and flows_test.go are its clients, history_test.go is the model that their histories are checked against,
// model_test.go and sabotage_test.go show that it can say no, and faults_test.go kills a node at every point of every deed
// (scene_test.go). What nodes on one database have to hold is in the cluster tests; what one node has to bear is in slow_test.go and
// flood_test.go, and streams_test.go has the kinds of streams.
//
// The package needs Linux: a node dies with the test that started it.
package rig
