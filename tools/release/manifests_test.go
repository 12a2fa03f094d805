package release

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	compose "github.com/compose-spec/compose-go/v2/types"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	chart    = "../../packaging/chart"
	values   = "../../packaging/kubernetes-values.yaml"
	manifest = "../../packaging/kubernetes.yaml"
)

// helm runs the pinned helm, and returns what it prints.
func helm(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	home := t.TempDir() // it reads plugins and repositories of its user
	command := exec.Command("go", append([]string{"tool", "helm"}, arguments...)...)
	command.Env = append(os.Environ(), "GOWORK=off", "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "HELM_CACHE_HOME="+home)
	out, err := command.CombinedOutput()
	return string(out), err
}

// TestManifestsAreTheChart: the chart is rendered with the values of the plain manifests → what is checked in as such.
func TestManifestsAreTheChart(t *testing.T) {
	rendered, err := helm(t, "template", "gatehouse", chart, "--values", values)
	if err != nil {
		t.Fatal(rendered)
	}
	kept, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if _, kept, _ := strings.Cut(string(kept), "---\n"); "---\n"+kept != rendered {
		t.Error("packaging/kubernetes.yaml is stale: make chart")
	}
}

// TestManifestsAreOfKubernetes: every object of the manifests, with all that the chart can switch on → is decoded strictly into its type, so
// that no field is unknown, twice there, or of another type; pods run as another user than root, with a root that they cannot write to.
func TestManifestsAreOfKubernetes(t *testing.T) {
	if err := monitoringv1.AddToScheme(scheme.Scheme); err != nil {
		t.Fatal(err)
	}
	for name, more := range map[string][]string{
		"the defaults": {"--set", "issuer=https://id.example.com"},
		"everything":   {"--values", "testdata/everything.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			rendered, err := helm(t, append([]string{"template", "gatehouse", chart}, more...)...)
			if err != nil {
				t.Fatal(rendered)
			}
			kinds := make(map[string]int)
			for _, object := range objectsOf(t, rendered) {
				kinds[object.GetObjectKind().GroupVersionKind().Kind]++
				deployment, is := object.(*appsv1.Deployment)
				if !is {
					continue
				}
				pod := deployment.Spec.Template.Spec
				if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
					t.Error("the pods may run as root")
				}
				if s := pod.Containers[0].SecurityContext; !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || s.Capabilities.Drop[0] != "ALL" {
					t.Errorf("the container's security is %v", s)
				}
				if p := pod.Containers[0].LivenessProbe.HTTPGet.Path; p != "/oauth/live" {
					t.Errorf("the pods are restarted by %s", p)
				}
				if p := pod.Containers[0].ReadinessProbe.HTTPGet.Path; p != "/oauth/ready" {
					t.Errorf("the pods get requests by %s", p)
				}
			}
			want := []string{"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service"}
			if name == "everything" {
				want = append(want, "ServiceMonitor")
			}
			for _, kind := range want {
				if kinds[kind] == 0 {
					t.Errorf("there is no %s, but %v", kind, kinds)
				}
			}
		})
	}
	// The decoder is what the test stands on.
	if _, err := decode([]byte("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: 80}\n")); err == nil {
		t.Error("an unknown field is decoded")
	}
}

func objectsOf(t *testing.T, text string) (objects []runtime.Object) {
	t.Helper()
	documents := yaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(text)))
	defer func() { _ = documents.Close() }()
	buffer := make([]byte, 1<<20)
	for {
		n, err := documents.Read(buffer)
		if err == io.EOF {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		document := bytes.TrimSpace(buffer[:n])
		object, err := decode(document)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objects = append(objects, object)
	}
}

func decode(document []byte) (runtime.Object, error) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	object, _, err := decoder.Decode(document, nil, nil)
	return object, err
}

// TestSenselessValuesAreRefused: values that make no sense → helm says which one, and renders nothing.
func TestSenselessValuesAreRefused(t *testing.T) {
	for name, senseless := range map[string]string{
		"issuer":              "issuer: http://id.example.com",
		"replicas":            "replicas: three",
		"replica":             "replica: 3", // a typing error
		"secret":              "secret: {dsn: postgres://gatehouse:secret@db/gatehouse}",
		"trustedProxies":      "trustedProxies: [the-ingress]",
		"digest":              "image: {digest: latest}",
		"maxUnavailable":      "podDisruptionBudget: {maxUnavailable: 0}", // no node could ever be drained
		"port":                "service: {port: 80000}",
		"interval":            "serviceMonitor: {interval: often}",
		"podSelectors":        "networkPolicy: {ingress: [{podSelectors: {}}]}",
		"missing property":    "replicas: null",
		"sites":               "sites: [a, b]",
		"no issuer is not ok": "issuer: ''",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "values.yaml")
			if !strings.HasPrefix(senseless, "issuer") {
				senseless = "issuer: https://id.example.com\n" + senseless
			}
			if err := os.WriteFile(file, []byte(senseless), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := helm(t, "template", "gatehouse", chart, "--values", file)
			if err == nil || !strings.Contains(out, "don't meet the specifications of the schema") || strings.Contains(out, "kind: Deployment") {
				t.Errorf("%v: %s", err, out)
			}
			if word := strings.Fields(name)[0]; word != "missing" && word != "no" && !strings.Contains(out, word) {
				t.Errorf("the error does not name %s: %s", word, out)
			}
		})
	}
}

// TestChartPassesLint: helm lint, with the values of the plain manifests → no failure and no warning.
func TestChartPassesLint(t *testing.T) {
	if out, err := helm(t, "lint", "--strict", "--quiet", chart, "--values", values); err != nil {
		t.Error(out)
	}
}

// TestComposeFile: compose.yaml → the library of docker compose takes it, by its schema, and the service runs with a read-only root.
func TestComposeFile(t *testing.T) {
	directory, err := filepath.Abs("../../packaging/compose")
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), compose.ConfigDetails{
		WorkingDir: directory, ConfigFiles: []compose.ConfigFile{{Filename: filepath.Join(directory, "compose.yaml")}},
	}, func(o *loader.Options) { o.SetProjectName("gatehouse", true) })
	if err != nil {
		t.Fatal(err)
	}
	service, err := project.GetService("gatehouse")
	if err != nil || !service.ReadOnly || len(service.CapDrop) != 1 {
		t.Errorf("%v, %v", service, err)
	}
	for _, file := range []string{filepath.Join(service.Build.Context, service.Build.Dockerfile), filepath.Join(directory, "Caddyfile")} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
}
