package guides

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"k8s.io/apiserver/pkg/apis/apiserver"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	"sigs.k8s.io/yaml"
)

// authority is a certificate authority for the API server.
type authority []byte

func (a authority) CurrentCABundleContent() []byte { return a }

// TestKubernetes shows ID tokens to the authenticator of the API server, configured with the guide's file: with the parameter claims of the
// guide the person has her groups, without it none, and a token of another client is nobody's.
func TestKubernetes(t *testing.T) {
	g := startGatehouse(t)
	p := g.open("kubernetes-api")
	p.ran("k8s.io/apiserver", inGo(t, ".", "k8s.io/apiserver"))
	var file apiserverv1.AuthenticationConfiguration
	check(t, yaml.UnmarshalStrict([]byte(p.block("yaml")), &file))
	var internal apiserver.AuthenticationConfiguration
	check(t, apiserverv1.Convert_v1_AuthenticationConfiguration_To_apiserver_AuthenticationConfiguration(&file, &internal, nil))
	pem, err := os.ReadFile(g.authority)
	check(t, err)
	server, err := oidc.New(t.Context(), oidc.Options{JWTAuthenticator: internal.JWT[0], CAContentProvider: authority(pem)})
	check(t, err)
	for deadline := time.Now().Add(time.Minute); server.HealthCheck() != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(server.HealthCheck())
		}
	}
	_, claims, found := strings.Cut(p.text, "--oidc-auth-request-extra-params 'claims=")
	if !found {
		t.Fatal("the guide asks for no claims")
	}
	claims, _, _ = strings.Cut(claims, "'")
	for name, row := range map[string]struct {
		more   []oauth2.AuthCodeOption
		groups []string
	}{
		"with claims":    {[]oauth2.AuthCodeOption{oauth2.SetAuthURLParam("claims", claims)}, []string{"gatehouse:engineering"}},
		"without claims": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			token := g.idToken(t, "kubernetes", "http://localhost:8000", row.more...)
			answer, is, err := server.AuthenticateToken(t.Context(), token)
			if err != nil || !is {
				t.Fatalf("the API server refuses the token: %v", err)
			}
			if answer.User.GetName() != "gatehouse:"+g.subject || !slices.Equal(answer.User.GetGroups(), row.groups) {
				t.Errorf("the API server knows %s of %v", answer.User.GetName(), answer.User.GetGroups())
			}
		})
	}
	g.oauth("", "client", "add", "--openid", "--public", "--first-party", "--id", "other", "--name", "Other", "--redirect-uri", "http://localhost:8000")
	if answer, is, err := server.AuthenticateToken(t.Context(), g.idToken(t, "other", "http://localhost:8000")); is || err == nil {
		t.Errorf("a token of another client is %v's", answer)
	}
}

// idToken signs the person in at a public client, as kubelogin and Argo CD's command line do, and returns the ID token.
func (g *gatehouse) idToken(t *testing.T, client, redirect string, more ...oauth2.AuthCodeOption) string {
	t.Helper()
	verifier := oauth2.GenerateVerifier()
	config := oauth2.Config{
		ClientID: client, RedirectURL: redirect, Scopes: []string{"openid"},
		Endpoint: oauth2.Endpoint{AuthURL: g.url + "/oauth/authorize", TokenURL: g.url + "/oauth/token", AuthStyle: oauth2.AuthStyleInParams},
	}
	if len(more) > 0 {
		config.Scopes = append(config.Scopes, "groups")
	}
	address := config.AuthCodeURL("state-of-kubelogin", append(more, oauth2.S256ChallengeOption(verifier))...)
	at := newBrowser(t).sentTo(address, to(redirect))
	token, err := config.Exchange(t.Context(), at.Query().Get("code"), oauth2.VerifierOption(verifier))
	check(t, err)
	text, _ := token.Extra("id_token").(string)
	if text == "" {
		told, _ := json.Marshal(token)
		t.Fatalf("there is no ID token in %s", told)
	}
	return text
}
