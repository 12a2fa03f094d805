package answers

import (
	"net/http"
	"strconv"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// JSONAPIMediaType is the media type of JSON:API 1.1.
const JSONAPIMediaType = "application/vnd.api+json"

// JSONAPI is JSONAPIMediaType as the values of a Content-Type header.
var JSONAPI = []string{JSONAPIMediaType}

// jsonAPIDocument is a JSON:API 1.1 error document.
type jsonAPIDocument struct {
	Errors  []jsonAPIError `json:"errors"`
	JSONAPI jsonAPIVersion `json:"jsonapi"`
}

type jsonAPIError struct {
	ID     string         `json:"id"`
	Status string         `json:"status"`
	Code   string         `json:"code"`
	Title  string         `json:"title"`
	Detail string         `json:"detail"`
	Source *jsonAPISource `json:"source,omitzero"`
}

// jsonAPISource points to the invalid value, which must exist (RFC 6901).
type jsonAPISource struct {
	Pointer string `json:"pointer"`
}

type jsonAPIVersion struct {
	Version string `json:"version"`
}

// WriteJSONAPIError writes an error as a JSON:API document. pointer names the invalid value (RFC 6901), or is nil.
func WriteJSONAPIError(w http.ResponseWriter, status int, e *oauth.Error, pointer *string) {
	var source *jsonAPISource
	if pointer != nil {
		source = &jsonAPISource{*pointer}
	}
	WriteBody(w, status, JSONAPI, jsonAPIDocument{
		Errors: []jsonAPIError{{
			ID: oauth.NewID(), Status: strconv.Itoa(status), Code: string(e.Code),
			Title: http.StatusText(status), Detail: e.Description, Source: source,
		}},
		JSONAPI: jsonAPIVersion{"1.1"},
	})
}
