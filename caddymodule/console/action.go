package console

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
)

// action is a change that a page asks about before it is made. Its texts are `console.do.NAME`, the title and the button, and
// `console.do.NAME.words`, what follows.
type action struct {
	route admin.Route
	// ids are the names of the values in the address that the route takes; their first one is what the action is about.
	ids []string
	// query are the names of what the API takes as a query, with those of the values.
	query map[string]string
	// belongs checks that what the action ends is of the thing whose name the page shows.
	belongs func(*visit) error
	// asked reads the thing. The action is refused once the thing has another version; nil: it is done in any case.
	asked func(*visit) (version string, err error)
	// fields are further values that the person gives; body makes the content of the request from them. Without body there is none.
	fields func(*visit) ([]pages.ConsoleField, error)
	body   func(v *visit, values url.Values) (any, error)
	// back is the page that follows, with those values of the address that it takes. show makes it a page with the answer instead.
	back     string
	backWith []string
	show     func(v *visit, a admin.Answer) *sheet
	danger   bool
}

var errNoAction = &admin.Refusal{Status: http.StatusNotFound, Err: errors.New("there is no such page")}

// actOn returns the page of some actions, by the value `do` of the address. About returns the name of what an action is about: the address
// alone could tell the operator another one.
func actOn(actions map[string]action, about func(*visit) (string, error)) func(*visit) (*form, error) {
	return func(v *visit) (*form, error) {
		name := v.query("do")
		a, is := actions[name]
		if !is {
			return nil, errNoAction
		}
		asked := admin.Ask{Route: a.route}
		for _, id := range a.ids {
			if v.query(id) == "" {
				return nil, errNoAction
			}
			asked.IDs = append(asked.IDs, v.query(id))
		}
		named, err := about(v)
		if err == nil && a.belongs != nil {
			err = a.belongs(v)
		}
		if err != nil {
			return nil, err
		}
		if len(a.query) > 0 {
			asked.Query = make(url.Values)
		}
		for name, value := range a.query {
			if v.query(value) == "" {
				return nil, errNoAction
			}
			asked.Query.Set(name, v.query(value))
		}
		var kept []string
		for _, value := range a.backWith {
			kept = append(kept, value, v.query(value))
		}
		back := to(a.back, kept...)
		f := &form{
			sheet:  sheet{title: "console.do." + name, about: named, blocks: []pages.Block{{Words: []pages.Phrase{pages.Say("console.do." + name + ".words")}}}},
			submit: pages.Say("console.do." + name), danger: a.danger, cancel: back,
		}
		if a.fields != nil {
			if f.fields, err = a.fields(v); err != nil {
				return nil, err
			}
		}
		if a.asked != nil {
			version, err := a.asked(v)
			if err != nil {
				return nil, err
			}
			f.fields = append(f.fields, versionField(version))
		}
		f.send = func(values url.Values) (result, error) {
			ask := asked
			ask.Version = values.Get("version")
			if a.body != nil {
				var err error
				if ask.Body, err = a.body(v, values); err != nil {
					return result{}, err
				}
			}
			answer, err := v.ask(ask)
			if err != nil {
				return result{}, err
			}
			if a.show != nil {
				if page := a.show(v, answer); page != nil {
					return result{sheet: page}, nil
				}
			}
			return result{url: back, done: true}, nil
		}
		return f, nil
	}
}

// idOfThing returns the id in the address.
func idOfThing(v *visit) (string, error) { return v.query("id"), nil }
