package pages

import "html/template"

// FormPost sends an answer to an application in a form (OAuth 2.0 Form Post Response Mode §2). A script submits the form. Without scripts,
// a button does.
type FormPost struct {
	// URI is the redirect URI, of http or https and registered for the client. The form's action is that URI byte for byte.
	URI string
	// Fields are the answer's parameters. Browsers send every line break in a value as CR LF.
	Fields []Field
	// ClientName is the application's name.
	ClientName string
}

// Field is a parameter of an answer.
type Field struct{ Name, Value string }

// formPostScript submits the form.
const formPostScript = "document.forms[0].submit()"

func (FormPost) template() string { return "formpost" }
func (FormPost) heading() string  { return "formpost.title" }
func (FormPost) failed() bool     { return false }

// Script returns the script.
func (FormPost) Script() template.JS { return formPostScript }

// Action returns the form's action attribute.
func (f FormPost) Action() template.HTMLAttr { return address("action", f.URI) }

// address returns an attribute with a URI exactly as registered. In a template, the URI would be re-encoded.
func address(name, uri string) template.HTMLAttr {
	return template.HTMLAttr(name + `="` + template.HTMLEscapeString(uri) + `"`) //lint:ignore gosec escaped
}
