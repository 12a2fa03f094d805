{{- define "gatehouse.labels" -}}
app.kubernetes.io/name: gatehouse
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The name of all objects: that of the release, with gatehouse in it. */}}
{{- define "gatehouse.name" -}}
{{- if contains "gatehouse" .Release.Name }}{{ .Release.Name }}{{ else }}{{ printf "%s-gatehouse" .Release.Name }}{{ end }}
{{- end }}

{{- define "gatehouse.metadata" -}}
name: {{ include "gatehouse.name" . }}
labels:
  {{- include "gatehouse.labels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "-" | quote }}
  helm.sh/chart: {{ printf "gatehouse-%s" .Chart.Version | replace "+" "-" }}
{{- end }}

{{- /* TLS ends before the pods, so the issuer's site is plain HTTP on a port that needs no privilege. */}}
{{- define "gatehouse.caddyfile" -}}
{
	admin localhost:2019
	persist_config off
	auto_https off
	shutdown_delay 10s
	grace_period 20s
	metrics
	{{- with .Values.trustedProxies }}
	servers {
		trusted_proxies static {{ join " " . }}
		trusted_proxies_strict
	}
	{{- end }}
	oauth {
		issuer {{ .Values.issuer }}
		store postgres {file./run/secrets/gatehouse/dsn}
		keys {
			encrypt_with {file./run/secrets/gatehouse/kek}
		}
		{{- with .Values.oauth | trim }}
		{{ . | replace "\n" "\n\t\t" }}
		{{- end }}
	}
}

http://{{ (urlParse .Values.issuer).host }}:8080 {
	oauth_server {
		ready
	}
}

:8081 {
	metrics /metrics
}
{{- with .Values.sites }}

{{ . | trim }}
{{- end }}
{{ end }}
