{{/* Labels of an object; not of pods, whose labels selectors and metrics know. */}}
{{- define "coil.labels" -}}
app.kubernetes.io/name: coil
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "coil.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Where the API server is, if that is said. */}}
{{- define "coil.apiServerEnv" -}}
{{- with .Values.apiServer.host }}
- name: KUBERNETES_SERVICE_HOST
  value: {{ . | quote }}
{{- end }}
{{- with .Values.apiServer.port }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "coil.socket" -}}
{{ .Values.coild.runDir }}/coild.sock
{{- end }}

{{/* Our entry of the chain. */}}
{{- define "coil.plugin" -}}
{
  "type": "coil",
  "socket": {{ include "coil.socket" . | quote }},
  "capabilities": { "io.kubernetes.cri.pod-annotations": true }
}
{{- end }}

{{- define "coil.netconf" -}}
{{- if .Values.cni.netconf -}}
{{ .Values.cni.netconf }}
{{- else if .Values.ipam.enabled -}}
{
  "cniVersion": "1.0.0",
  "cniVersions": ["1.0.0", "1.1.0"],
  "name": "k8s-pod-network",
  "plugins": [
    {{- include "coil.plugin" . | nindent 4 }}
    {{- if .Values.cni.portmap }},
    {
      "type": "portmap",
      "snat": true,
      "capabilities": { "portMappings": true }
    }
    {{- end }}
  ]
}
{{- else -}}
{
  "plugins": [
    {{- include "coil.plugin" . | nindent 4 }}
  ]
}
{{- end }}
{{- end }}

{{/*
The objects of files that kustomize reads too, so that both install the same:
with this chart's labels, and in the release's namespace. Takes a list: the
root, and a pattern of files.
*/}}
{{- define "coil.files" -}}
{{- $root := index . 0 -}}
{{- range $path, $_ := $root.Files.Glob (index . 1) }}
{{- range $text := regexSplit "(?m)^---\\s*$" ($root.Files.Get $path) -1 }}
{{- $object := fromYaml (replace "kube-system" $root.Release.Namespace $text) }}
{{- if $object.kind }}
{{- $labels := fromYaml (include "coil.labels" $root) }}
{{- $_ := set $object.metadata "labels" (merge $labels ($object.metadata.labels | default dict)) }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
