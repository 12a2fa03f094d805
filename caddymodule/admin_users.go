package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

var userOperations = map[string]operation{
	"GET /oauth/users":                listUsers,
	"POST /oauth/users":               addUser,
	"GET /oauth/users/{id}":           showUser,
	"DELETE /oauth/users/{id}":        removeUser,
	"POST /oauth/users/{id}/password": setPassword,
	"POST /oauth/users/{id}/role":     setRole,
	"POST /oauth/users/{id}/disable":  setStatus(tokenissuer.UserDisabled, "user disabled"),
	"POST /oauth/users/{id}/lock":     setStatus(tokenissuer.UserLocked, "user locked"),
	"POST /oauth/users/{id}/enable":   setStatus(tokenissuer.UserActive, "user enabled"),
}

// userView is what an operator sees of a user: whether there is a password, and nothing of it.
type userView struct {
	ID           string           `json:"id"`
	Email        string           `json:"email"`
	Name         string           `json:"name"`
	Organisation string           `json:"organisation"`
	Role         tokenissuer.Role `json:"role"`
	// RoleUndeclared: there is no such role any more, so the user has none.
	RoleUndeclared bool                   `json:"role_undeclared,omitzero"`
	Status         tokenissuer.UserStatus `json:"status"`
	HasPassword    bool                   `json:"has_password"`
	Source         string                 `json:"source"`
	CreatedAt      time.Time              `json:"created_at,omitzero"`
}

func (a *App) viewOfUser(u *tokenissuer.User) userView {
	return userView{
		RoleUndeclared: u.Role != "" && !a.settings.roles.Has(u.Role),
		ID:             u.ID, Email: u.Email, Name: u.Name, Organisation: u.Organisation, Role: u.Role, Status: u.Status,
		HasPassword: !u.PasswordHash.IsEmpty(), Source: source(u.Declared), CreatedAt: u.CreatedAt,
	}
}

func listUsers(app *App, r *http.Request) (int, any, error) {
	organisation, err := organisationAsked(r.URL)
	if err != nil {
		return 0, nil, err
	}
	users, err := app.registry.Users(r.Context(), organisation)
	views := make([]userView, 0, len(users))
	for _, u := range users {
		views = append(views, app.viewOfUser(u))
	}
	return http.StatusOK, views, err
}

// organisationAsked reads the filter of a list; empty: there is none. Anything else in the query is refused, for a
// misspelled filter would list everybody.
func organisationAsked(u *url.URL) (string, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", tokenissuer.InvalidInput(errors.New("the query is malformed"))
	}
	for name, values := range query {
		if name != "organisation" || len(values) != 1 || values[0] == "" {
			return "", tokenissuer.InvalidInput(errors.New("the list takes one filter: ?organisation=ID"))
		}
	}
	return query.Get("organisation"), nil
}

func showUser(app *App, r *http.Request) (int, any, error) {
	user, err := app.registry.User(r.Context(), r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, app.viewOfUser(user), nil
}

// newUser is the request to add a user, with one of password and password_hash, or neither.
type newUser struct {
	ID           string           `json:"id,omitzero"`
	Email        string           `json:"email"`
	Name         string           `json:"name,omitzero"`
	Organisation string           `json:"organisation,omitzero"`
	Role         tokenissuer.Role `json:"role,omitzero"`
	newPassword
}

// newPassword is a password or its hash.
type newPassword struct {
	Password string `json:"password,omitzero"`
	Hash     string `json:"password_hash,omitzero"`
}

var errTwoPasswords = tokenissuer.InvalidInput(errors.New("give password or password_hash, not both"))

func addUser(app *App, r *http.Request) (int, any, error) {
	var n newUser
	if err := readAdmin(r, &n); err != nil {
		return 0, nil, err
	}
	if n.Password != "" && n.Hash != "" {
		return 0, nil, errTwoPasswords
	}
	user, err := app.registry.AddUser(r.Context(), tokenissuer.User{
		ID: n.ID, Email: n.Email, Name: n.Name, Organisation: n.Organisation, Role: n.Role,
		PasswordHash: tokenissuer.NewSecret(n.Hash),
	}, tokenissuer.NewSecret(n.Password))
	if errors.Is(err, tokenissuer.ErrTaken) {
		return 0, nil, fmt.Errorf("%w, or the e-mail address is", err)
	}
	if err != nil {
		return 0, nil, err
	}
	app.record("user added", zap.String("user_id", user.ID), zap.String("organisation", user.Organisation), zap.String("role", string(user.Role)))
	return http.StatusCreated, app.viewOfUser(user), nil
}

func removeUser(app *App, r *http.Request) (int, any, error) {
	return app.changeUser(r, "user removed", app.registry.RemoveUser(r.Context(), r.PathValue("id")))
}

func setPassword(app *App, r *http.Request) (int, any, error) {
	var n newPassword
	err := readAdmin(r, &n)
	id := r.PathValue("id")
	switch {
	case err != nil:
	case n.Password != "" && n.Hash != "":
		err = errTwoPasswords
	case n.Hash != "":
		err = app.registry.SetPasswordHash(r.Context(), id, tokenissuer.NewSecret(n.Hash))
	default:
		err = app.registry.SetPassword(r.Context(), id, tokenissuer.NewSecret(n.Password))
	}
	return app.changeUser(r, "user password set", err)
}

func setRole(app *App, r *http.Request) (int, any, error) {
	var request struct {
		Role tokenissuer.Role `json:"role"`
	}
	if err := readAdmin(r, &request); err != nil {
		return 0, nil, err
	}
	err := app.registry.SetRole(r.Context(), r.PathValue("id"), request.Role)
	return app.changeUser(r, "user role set", err, zap.String("role", string(request.Role)))
}

func setStatus(status tokenissuer.UserStatus, what string) operation {
	return func(app *App, r *http.Request) (int, any, error) {
		return app.changeUser(r, what, app.registry.SetUserStatus(r.Context(), r.PathValue("id"), status))
	}
}

// changeUser records a change that went well.
func (a *App) changeUser(r *http.Request, what string, err error, details ...zap.Field) (int, any, error) {
	if err == nil {
		a.record(what, append([]zap.Field{zap.String("user_id", r.PathValue("id"))}, details...)...)
	}
	return http.StatusNoContent, nil, err
}
