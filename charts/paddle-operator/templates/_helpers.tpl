{{- /* The managers, and what their objects are called after. */ -}}
{{- define "paddle.managers" -}}
- {controller: paddlejob, role: manager, leader: leader-election, deployment: controller-manager}
{{- if .Values.sampleCache.enabled }}
- {controller: sampleset, role: sampleset, leader: sampleset-leader-election, deployment: sampleset-manager}
- {controller: samplejob, role: samplejob, leader: samplejob-leader-election, deployment: samplejob-manager}
{{- end }}
{{- end }}

{{- define "paddle.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* Empty when all namespaces are managed. */ -}}
{{- define "paddle.watched" -}}
{{- $namespace := .Values.watchNamespace | default .Release.Namespace }}
{{- if ne $namespace "*" }}{{ $namespace }}{{ end }}
{{- end }}

{{- define "paddle.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* What is to be added to the flags of a manager. */ -}}
{{- define "paddle.arguments" -}}
{{- $values := .root.Values }}
{{- if eq .controller "paddlejob" }}
{{- with $values.paddlejob.scheduling }}
{{- if ne . "volcano" }}
{{- fail (printf "paddlejob.scheduling=%s: it can be volcano, or empty" .) }}
{{- end }}
- --scheduling={{ . }}
{{- end }}
{{- with $values.paddlejob.etcdServer }}
- --etcd-server={{ . }}
{{- end }}
{{- with $values.paddlejob.portRange }}
- --port-range={{ . }}
{{- end }}
{{- with $values.paddlejob.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- else }}
{{- if eq .controller "sampleset" }}
{{- with $values.sampleCache.cachePathPrefixes }}
- --cache-path-prefixes={{ join "," . }}
{{- end }}
{{- end }}
{{- with $values.sampleCache.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}
