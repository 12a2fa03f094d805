// Package answers writes the answers of OAuth over HTTP: objects of JSON, and errors, each code with its status, as OAuth JSON, as a
// JSON:API document or as a Bearer challenge. It knows nothing of what was asked.
package answers
