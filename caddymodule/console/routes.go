package console

// route is a page of the console.
type route struct {
	place string
	// inOrganisation: operators of one organisation see it too.
	inOrganisation bool
	// One of these serves it: read a page that changes nothing, form one with a form, and file what is no page.
	read func(*visit) (sheet, error)
	form func(*visit) (*form, error)
	file func(*visit) error
}

// methods returns the methods of the route, as in Allow.
func (r route) methods() string {
	if r.form != nil {
		return "GET, HEAD, POST"
	}
	return "GET, HEAD"
}

// places are the sections of the console, in the order in which they are shown.
var places = []struct{ name, path string }{
	{"start", ""}, {"people", "/people"}, {"applications", "/applications"}, {"sessions", "/sessions"}, {"organisations", "/organisations"}, {"tokens", "/tokens"},
	{"gate", "/gate"}, {"providers", "/providers"}, {"keys", "/keys"}, {"nodes", "/nodes"}, {"audit", "/audit"},
}

// routes are the pages by their path below Base.
var routes map[string]route

func init() { // a page refers to others by their routes
	routes = map[string]route{
		"":        {place: "start", inOrganisation: true, read: start},
		againPath: {inOrganisation: true, file: again},

		"/people":               {place: "people", inOrganisation: true, read: listPeople},
		"/people/new":           {place: "people", inOrganisation: true, form: newPerson},
		"/people/person":        {place: "people", inOrganisation: true, read: showPerson},
		"/people/edit":          {place: "people", inOrganisation: true, form: editPerson},
		"/people/act":           {place: "people", inOrganisation: true, form: actOn(personActions, nameOfPerson)},
		"/sessions":             {place: "sessions", inOrganisation: true, read: listSessions},
		"/sessions/act":         {place: "sessions", inOrganisation: true, form: actOn(sessionActions, whoseSessions)},
		"/organisations/groups": {place: "organisations", form: changeGroups},
		"/organisations":        {place: "organisations", read: listOrganisations},
		"/organisations/new":    {place: "organisations", form: newOrganisation},
		"/organisations/act":    {place: "organisations", form: actOn(organisationActions, idOfThing)},
		"/gate":                 {place: "gate", read: listCoverage},
		"/gate/refusals":        {place: "gate", inOrganisation: true, read: listRefusals},
		"/gate/why":             {place: "gate", inOrganisation: true, read: explainRefusal},
		"/providers":            {place: "providers", read: listProviders},
		"/providers/test":       {place: "providers", form: testProvider},
		"/providers/mail":       {place: "providers", form: testMail},
		"/keys":                 {place: "keys", read: listKeys},
		"/keys/rotate":          {place: "keys", form: rotateKeys},
		"/keys/act":             {place: "keys", form: actOn(keyActions, idOfThing)},
		"/nodes":                {place: "nodes", read: showNode},
		"/audit":                {place: "audit", inOrganisation: true, read: listAudit},
		"/audit/export":         {place: "audit", inOrganisation: true, file: exportAudit},

		"/applications":             {place: "applications", read: listApplications},
		"/applications/application": {place: "applications", read: showApplication},
		"/applications/new":         {place: "applications", read: chooseKind},
		"/applications/add":         {place: "applications", form: newApplication},
		"/applications/edit":        {place: "applications", form: editApplication},
		"/applications/act":         {place: "applications", form: actOn(applicationActions, nameOfApplication)},
		"/tokens":                   {place: "tokens", form: explainToken},
		"/tokens/revoke":            {place: "tokens", form: revokeTokens},
		"/tokens/act":               {place: "tokens", form: actOn(tokenActions, idOfThing)},
	}
}
