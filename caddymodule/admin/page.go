package admin

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// page is the answer of a list that is read in pages. The link to the next one is in the header Link (RFC 8288).
type page struct {
	items any
	next  string // empty: it is the last one
}

// pageQuery are the members of the query of such a list.
type pageQuery struct {
	Limit int    `json:"limit" help:"Greatest number of items, 1 to 1000 (default: 100)"`
	After string `json:"after" help:"Where the page begins: from the link to it"`
}

const usualPage = 100

// read reads where the page begins and sets its size.
func (q pageQuery) read(after any, limit *int) error {
	if *limit = q.Limit; q.Limit == 0 {
		*limit = usualPage
	}
	if *limit > store.MaxPage {
		return store.InvalidInput(fmt.Errorf("limit: use 1 to %d", store.MaxPage))
	}
	if q.After == "" {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(q.After)
	if err == nil {
		err = json.Unmarshal(text, after)
	}
	if err != nil {
		return store.InvalidInput(errors.New("after: it is from no link of a list"))
	}
	return nil
}

// next returns the link to the page that begins at a position, or "" if that is the zero value.
func next[P comparable](r *http.Request, after P) string {
	if after == *new(P) {
		return ""
	}
	text, _ := json.Marshal(after) // strings and numbers can always be encoded
	query := r.URL.Query()
	query.Set("after", base64.RawURLEncoding.EncodeToString(text))
	return r.URL.Path + "?" + query.Encode()
}

// queryOf reads the query of a request. What T does not have is refused, and so is an empty value: a misspelled filter would list everything.
func queryOf[T any](r *http.Request) (T, error) {
	var q T
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, store.InvalidInput(errors.New("the query is malformed"))
	}
	fields := reflect.ValueOf(&q).Elem()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field, known := named(fields, name)
		text := values[name][0]
		switch {
		case !known:
			return q, store.InvalidInput(fmt.Errorf("unknown filter %.64q", name))
		case len(values[name]) != 1 || text == "":
			return q, store.InvalidInput(fmt.Errorf("%s: give one value, or leave it out", name))
		}
		switch field.Kind() {
		case reflect.String:
			field.SetString(text)
		case reflect.Bool:
			var is bool
			is, err = strconv.ParseBool(text)
			field.SetBool(is)
		case reflect.Int:
			var n int
			if n, err = strconv.Atoi(text); err == nil && n < 1 {
				err = strconv.ErrRange
			}
			field.SetInt(int64(n))
		}
		if err != nil {
			return q, store.InvalidInput(fmt.Errorf("%s: %.64q is no value", name, text))
		}
	}
	return q, nil
}

// named returns the field of a struct with a name in JSON.
func named(fields reflect.Value, name string) (reflect.Value, bool) {
	for i := range fields.NumField() {
		switch field := fields.Type().Field(i); {
		case field.Anonymous:
			if found, ok := named(fields.Field(i), name); ok {
				return found, true
			}
		case field.Tag.Get("json") == name:
			return fields.Field(i), true
		}
	}
	return reflect.Value{}, false
}
