package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var linkOperations = map[Route]operation{
	InviteUser:  adds[Link]("Gives a user a link to set the first password, and adds the user if there is none with the address", withMembers[invitation](inviteUser)),
	RecoverUser: adds[Link]("Gives a user who has lost everything a link to set a password", withBody(recoverUser)),
}

// invitation are the members of an invitation. User is the id or the address; the others are members of a user to be added.
type invitation struct {
	store.User
	Invited       string `json:"user"`
	EmailVerified bool   `json:"email_verified,omitzero"`
}

// Link is a link for a user. Who has it can set the user's password.
type Link struct {
	UserID    string    `json:"user_id"`
	Email     string    `json:"email"`
	ExpiresAt time.Time `json:"expires_at"`
	// Mailed reports that it was mailed to the address. Otherwise Link is to be handed over.
	Mailed bool   `json:"mailed"`
	Link   string `json:"link,omitzero"`
}

// linkRequest is the request for a link. Mail sends it to the user.
type linkRequest struct {
	Mail bool `json:"mail,omitzero"`
}

var errNoPasswords = store.InvalidInput(errors.New("people sign in without passwords of ours: there is none to set"))

// ErrInvitedExists is the error of an invitation with members for a user who exists.
var ErrInvitedExists = store.InvalidInput(errors.New("the user exists: change it with `caddy oauth user update`, and invite it without further members"))

// inviteUser makes a link with which a user sets the first password. It is mailed if there is mail. The member user of the request is the
// user's id or address. If no user has the address, the user is added first, with the other members, unless the request names the version of
// one who exists.
func inviteUser(t *Target, r *http.Request, p store.Patch) (int, any, error) {
	var name string
	if err := p.Take("user", &name); err != nil {
		return 0, nil, malformed(err)
	}
	if t.Registry.Links == nil {
		return 0, nil, errNoPasswords
	}
	user, err := t.Registry.People.UserNamed(r.Context(), name)
	if errors.Is(err, store.ErrNotFound) && strings.Contains(name, "@") && r.Header.Get("If-Match") == "" {
		for _, member := range []string{"password", "password_hash", "service", "email"} {
			if p.Has(member) {
				return 0, nil, malformed(fmt.Errorf("an invitation has no %s", member))
			}
		}
		if name, err = people.CheckNewEmail(name); err != nil {
			return 0, nil, store.InvalidInput(err)
		}
		if p["email"], err = json.Marshal(name); err != nil {
			return 0, nil, malformed(err)
		}
		user, err = t.addUser(r, p)
	} else if err == nil {
		if err = checkVersion(r, versionOfUser(user)); err == nil && len(p) > 0 {
			err = ErrInvitedExists
		}
	}
	if err != nil {
		return 0, nil, err
	}
	return t.giveLink(r.Context(), user, "user invited", func(links *people.Links) (people.MadeLink, error) { return links.Invite(r.Context(), user.ID) })
}

// recoverUser makes a link for a user who has lost password and factors, and ends the user's sessions and tokens.
func recoverUser(t *Target, r *http.Request, request linkRequest) (int, any, error) {
	if t.Registry.Links == nil {
		return 0, nil, errNoPasswords
	}
	user, err := t.Registry.People.UserNamed(r.Context(), r.PathValue("id"))
	if err == nil {
		err = checkVersion(r, versionOfUser(user))
	}
	if err != nil {
		return 0, nil, err
	}
	return t.giveLink(r.Context(), user, "user recovery begun", func(links *people.Links) (people.MadeLink, error) {
		return links.Recover(r.Context(), user, request.Mail)
	})
}

// giveLink answers with a link for a user, and records it.
func (t *Target) giveLink(ctx context.Context, user *store.User, what string, give func(*people.Links) (people.MadeLink, error)) (int, any, error) {
	made, err := give(t.Registry.Links)
	if made.User != nil { // a letter that could not be queued does not undo what was done before
		t.record(ctx, what, zap.String("subject", user.ID), zap.Bool("mailed", made.Mailed && err == nil))
	}
	if err != nil {
		return 0, nil, err
	}
	view := Link{UserID: user.ID, Email: user.Email, ExpiresAt: made.Until, Mailed: made.Mailed}
	if !made.Mailed {
		view.Link = made.URL.Reveal()
	}
	return http.StatusCreated, view, nil
}
