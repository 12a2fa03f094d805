//go:build linux

package rig

import (
	"context"
	"syscall"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// dsnVariable is the environment variable with the database of a Cluster's node.
const dsnVariable = "GATEHOUSE_RIG_DSN"

// connections is the size of each node's pool. A few nodes together stay below the default limit of a server.
const connections = "12"

// Cluster is a set of equal nodes on one PostgreSQL database, behind a Balancer whose URL is the issuer's.
type Cluster struct {
	*Balancer
	// DSN is the database.
	DSN   string
	Nodes []*Node

	t testing.TB
}

// NewCluster creates the database and the balancer, without nodes.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	return &Cluster{t: t, DSN: pgtest.Shared(t).Database(t), Balancer: NewBalancer(t)}
}

// StartCluster starts size nodes of one setup concurrently, and waits until all of them serve.
func StartCluster(t testing.TB, size int, setup Setup) *Cluster {
	t.Helper()
	c := NewCluster(t)
	for range size {
		c.Add(setup, c.DSN)
	}
	c.Start()
	return c
}

// Add prepares one more node. It connects to the database at dsn, which may lead through a proxy.
func (c *Cluster) Add(setup Setup, dsn string) *Node {
	c.t.Helper()
	setup.Issuer = c.URL
	setup.Store = "postgres {env." + dsnVariable + "} {\n\t\t\tpool " + connections + "\n\t\t}"
	setup.Environment = append([]string{dsnVariable + "=" + dsn}, setup.Environment...)
	n := New(c.t, setup)
	c.Nodes = append(c.Nodes, n)
	c.Use(c.Nodes...)
	return n
}

// Start starts all nodes concurrently, and waits until all of them serve.
func (c *Cluster) Start() {
	c.t.Helper()
	for _, n := range c.Nodes {
		if err := n.Launch(); err != nil {
			c.t.Fatal(err)
		}
	}
	c.t.Cleanup(func() { // concurrently, because Stop waits
		for _, n := range c.Nodes {
			n.Signal(syscall.SIGTERM)
		}
	})
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	for _, n := range c.Nodes {
		if _, err := n.AwaitServing(ctx); err != nil {
			c.t.Fatalf("%v; its log ends with:\n%s", err, n.lastWords())
		}
	}
}

// Elsewhere returns a URL at which each request goes to another node than the one before, if a single client uses it.
func (c *Cluster) Elsewhere() string {
	c.t.Helper()
	b := NewBalancer(c.t)
	b.Use(c.Nodes...)
	return b.URL
}
