// Package auditlog keeps the lines of the audit log in the store, behind the requests that write them.
//
// core.go takes the lines of a logger: it is a second core beside Caddy's own, so whatever is written to the audit log is kept, and there is
// no list of events here. event.go turns a line into a bounded event. log.go is the queue between the two, and its writer.
package auditlog
