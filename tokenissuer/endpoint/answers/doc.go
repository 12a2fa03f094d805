// Package answers writes OAuth responses over HTTP: JSON objects, and errors as OAuth JSON, as a JSON:API document or as a Bearer
// challenge. It maps each error code to a status. It knows nothing about the requested operation.
package answers
