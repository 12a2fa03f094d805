package upstream

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

const (
	// pageSize is GitHub's maximum. maxPages bounds the number of pages.
	pageSize = 100
	maxPages = 10
)

// githubUser is the response of GET /user. Only the id is permanent: a login can be given up and taken by another user.
type githubUser struct {
	ID      int64  `json:"id"`
	Login   string `json:"login"`
	Name    string `json:"name"`
	Picture string `json:"avatar_url"`
}

// githubEmail is an element of GET /user/emails.
type githubEmail struct {
	Email    string `json:"email"`
	Primary  bool   `json:"primary"`
	Verified bool   `json:"verified"`
}

type githubOrganisation struct {
	Login string `json:"login"`
}

type githubTeam struct {
	Slug         string             `json:"slug"`
	Organisation githubOrganisation `json:"organization"`
}

// account fetches the person's account from the API.
func (g *GitHub) account(ctx context.Context, accessToken oauth.Secret) (signin.Account, error) {
	body, err := g.channel.get(ctx, g.endpoint("/user", nil), accessToken)
	if err != nil {
		return signin.Account{}, err
	}
	user, err := readGitHubUser(body)
	if err != nil {
		return signin.Account{}, err
	}
	emails, err := pages[githubEmail](ctx, g, "/user/emails", accessToken)
	if err != nil {
		return signin.Account{}, err
	}
	a := user.account(g.settings.Name, emails)
	if g.settings.Groups == "" {
		return a, nil
	}
	organisations, err := pages[githubOrganisation](ctx, g, "/user/orgs", accessToken)
	if err != nil {
		return signin.Account{}, err
	}
	var teams []githubTeam
	if g.settings.Groups == GitHubTeams {
		if teams, err = pages[githubTeam](ctx, g, "/user/teams", accessToken); err != nil {
			return signin.Account{}, err
		}
	}
	a.Groups = g.settings.groupsOf(organisations, teams)
	return a, nil
}

func readGitHubUser(body []byte) (*githubUser, error) {
	user := new(githubUser)
	if err := strictjson.Object(body, user); err != nil {
		return nil, misconfigured("GitHub's answer about the user: %w", err)
	}
	if user.ID <= 0 {
		return nil, untrusted("GitHub's answer about the user has no id")
	}
	return user, nil
}

// account returns the account with the primary address, if it is verified. The other addresses may be out of date.
func (u *githubUser) account(provider string, emails []githubEmail) signin.Account {
	claims := claimSet{members: map[string]any{"preferred_username": u.Login, "picture": u.Picture, "name": u.Name}}
	a := signin.Account{
		Provider: provider, Subject: strconv.FormatInt(u.ID, 10), Name: claims.text("name"), Profile: claims.profile(),
	}
	if a.Name == "" {
		a.Name = u.Login
	}
	for _, e := range emails {
		if e.Primary && e.Verified {
			a.Email, a.EmailVerified = e.Email, true
		}
	}
	return a
}

// groupsOf returns the organisations that count, and their teams, prefixed by the organisation. It is never nil.
func (s *GitHubSettings) groupsOf(organisations []githubOrganisation, teams []githubTeam) []string {
	groups := []string{}
	counts := func(login string) bool { // GitHub logins are unique regardless of case
		return slices.ContainsFunc(s.Organisations, func(name string) bool { return strings.EqualFold(name, login) })
	}
	add := func(name string) {
		if !slices.Contains(groups, name) {
			groups = append(groups, name)
		}
	}
	for _, o := range organisations {
		if counts(o.Login) {
			add(o.Login)
		}
	}
	for _, t := range teams {
		if t.Slug != "" && counts(t.Organisation.Login) {
			add(t.Organisation.Login + "/" + t.Slug)
		}
	}
	return groups
}

// pages fetches all pages of a list.
func pages[T any](ctx context.Context, g *GitHub, path string, accessToken oauth.Secret) (list []T, err error) {
	for page := 1; page <= maxPages; page++ {
		query := url.Values{"per_page": {strconv.Itoa(pageSize)}, "page": {strconv.Itoa(page)}}
		body, err := g.channel.get(ctx, g.endpoint(path, query), accessToken)
		if err != nil {
			return nil, err
		}
		var some []T
		if err := strictjson.Unmarshal(body, &some); err != nil {
			return nil, misconfigured("GitHub's answer at %s: %w", path, err)
		}
		if list = append(list, some...); len(some) < pageSize {
			return list, nil
		}
	}
	return nil, fmt.Errorf("%w", misconfigured("GitHub's list at %s is longer than %d entries", path, pageSize*maxPages))
}
