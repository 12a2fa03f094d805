// Command argocd is the part of Argo CD's server that signs people in and decides what they may do: its own code, with the ConfigMaps of the
// guide. It shows who the person is, and whether that person may do what only an administrator may.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/argoproj/argo-cd/v3/common"
	listers "github.com/argoproj/argo-cd/v3/pkg/client/listers/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/server/rbacpolicy"
	"github.com/argoproj/argo-cd/v3/util/assets"
	"github.com/argoproj/argo-cd/v3/util/cache"
	httputil "github.com/argoproj/argo-cd/v3/util/http"
	"github.com/argoproj/argo-cd/v3/util/oidc"
	"github.com/argoproj/argo-cd/v3/util/rbac"
	"github.com/argoproj/argo-cd/v3/util/session"
	"github.com/argoproj/argo-cd/v3/util/settings"
	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	kubecache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"
)

const namespace = "argocd"

// server has what answers a request of a person in Argo CD's server.
type server struct {
	settings *settings.ArgoCDSettings
	sessions *session.SessionManager
	app      *oidc.ClientApp
	enforcer *rbac.Enforcer
}

func main() {
	s, err := newServer(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/auth/login", s.app.HandleLogin)
	http.HandleFunc("/auth/callback", s.app.HandleCallback)
	http.HandleFunc("/", s.home)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil)) //lint:ignore gosec a test's server
}

// newServer reads the data of the ConfigMaps argocd-cm and argocd-rbac-cm, as YAML, and one entry of the secret argocd-secret from the environment.
func newServer(ctx context.Context) (*server, error) {
	var config, policy map[string]string
	if err := yaml.UnmarshalStrict([]byte(os.Getenv("ARGOCD_CM")), &config); err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict([]byte(os.Getenv("ARGOCD_RBAC_CM")), &policy); err != nil {
		return nil, err
	}
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/part-of": "argocd"}}
	}
	cluster := fake.NewClientset(
		&corev1.ConfigMap{ObjectMeta: named(common.ArgoCDConfigMapName), Data: config},
		&corev1.Secret{ObjectMeta: named(common.ArgoCDSecretName), Data: map[string][]byte{
			"server.secretkey":      []byte("what Argo CD seals its cookies with"),
			os.Getenv("SECRET_KEY"): []byte(os.Getenv("SECRET_VALUE")),
		}},
	)
	manager := settings.NewSettingsManager(ctx, cluster, namespace)
	known, err := manager.GetSettings()
	if err != nil {
		return nil, err
	}
	app, err := oidc.NewClientApp(known, "", nil, "/", cache.NewInMemoryCache(time.Hour))
	if err != nil {
		return nil, err
	}
	none := kubecache.NewIndexer(kubecache.MetaNamespaceKeyFunc, kubecache.Indexers{kubecache.NamespaceIndex: kubecache.MetaNamespaceIndexFunc})
	projects := listers.NewAppProjectLister(none).AppProjects(namespace)
	enforcer := rbac.NewEnforcer(cluster, namespace, common.ArgoCDRBACConfigMapName, nil)
	enforcer.SetClaimsEnforcerFunc(rbacpolicy.NewRBACPolicyEnforcer(enforcer, projects).EnforceClaims)
	if err := errors.Join(enforcer.SetBuiltinPolicy(assets.BuiltinPolicyCSV), enforcer.SetUserPolicy(policy["policy.csv"])); err != nil {
		return nil, err
	}
	return &server{known, session.NewSessionManager(manager, projects, "", nil, session.NewUserStateStorage(nil)), app, enforcer}, nil
}

// home shows the person whose token the command line sends, or the cookies of a browser hold.
func (s *server) home(w http.ResponseWriter, r *http.Request) {
	claims, err := s.claims(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	claims["administrator"] = s.enforcer.Enforce(claims, rbac.ResourceClusters, rbac.ActionDelete, "https://kubernetes.default.svc")
	_ = json.NewEncoder(w).Encode(claims)
}

// claims are those of the ID token, with the groups of the userinfo endpoint where the settings ask for them.
func (s *server) claims(r *http.Request) (jwt.MapClaims, error) {
	token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !is {
		var err error
		if token, err = httputil.JoinCookies(common.AuthCookieName, r.Cookies()); err != nil {
			return nil, err
		}
	}
	verified, _, err := s.sessions.VerifyToken(token)
	if err != nil {
		return nil, err
	}
	claims, is := verified.(jwt.MapClaims)
	if !is {
		return nil, errors.New("the claims are of another type")
	}
	if s.settings.UserInfoGroupsEnabled() && s.settings.UserInfoPath() != "" {
		user, _, err := s.app.GetUserInfo(claims, s.settings.IssuerURL(), s.settings.UserInfoPath())
		if err != nil {
			return nil, err
		}
		if user["sub"] != claims["sub"] {
			return nil, errors.New("the userinfo is somebody else's")
		}
		claims["groups"] = user["groups"]
	}
	return claims, nil
}
