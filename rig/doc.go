// Package rig runs Gatehouse nodes as separate processes, which tests can kill. Only tests import it.
//
//	func TestMain(m *testing.M) { rig.Main(m) } // the test binary is the node's program as well
//
//	node := rig.Start(t, rig.Setup{})           // on SQLite, serving
//	node.Kill()                                 // SIGKILL
//	node.Restart()                              // at the same address, on the same data
//
// A node is a Caddy with Gatehouse, configured by a Caddyfile as an operator writes one (caddyfile.go). Several nodes on one PostgreSQL
// have a Balancer in front of them, without affinity. A Browser and an Application walk through the flows over the network (browser.go,
// application.go). They record an answer only after they have received all of it.
//
// The crash rig, which `make crash` runs, is in the tests of the package: crash_test.go is the supervisor, worker_test.go and
// flows_test.go are its clients, history_test.go is the model that their histories are checked against, and model_test.go and
// sabotage_test.go show that the model rejects wrong histories. faults_test.go kills a node at every point of every step (scene_test.go).
// The cluster tests are about several nodes on one database, slow_test.go and flood_test.go about overload of one node, and
// streams_test.go has the kinds of streams.
//
// The package requires Linux: a node dies with the test that started it.
package rig
