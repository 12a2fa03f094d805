// Package rule decides which requests a verified token may make: the `require` rules of a route (rule.go, check.go;
// expression.go, person.go and signin.go for those that are more than a list of values), and which requests need no token
// (anonymous.go).
package rule
