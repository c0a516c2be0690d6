{{/* Labels of an object; not of pods, whose labels selectors and metrics know. */}}
{{- define "coil.labels" -}}
app.kubernetes.io/name: coil
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* "true" where addresses are from pools. */}}
{{- define "coil.pools" -}}
{{- if and .Values.ipam.enabled (eq .Values.addresses "pools") }}true{{ end -}}
{{- end }}

{{/* "true" where addresses are from the VPC. */}}
{{- define "coil.vpc" -}}
{{- if and .Values.ipam.enabled (eq .Values.addresses "vpc") }}true{{ end -}}
{{- end }}

{{/* The cluster that network interfaces of EC2 are tagged with. */}}
{{- define "coil.vpcEnv" -}}
{{- if include "coil.vpc" . }}
- name: COIL_CLUSTER_NAME
  valueFrom:
    configMapKeyRef:
      name: coil-vpc
      key: cluster-name
{{- end }}
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
{{- $conf := fromJson .Values.cni.netconf -}}
{{- with $conf.Error }}{{ fail (printf "cni.netconf is not a JSON object: %s" .) }}{{ end -}}
{{- $types := list -}}
{{- range $conf.plugins }}{{ $types = append $types .type }}{{ end -}}
{{- if not (has "coil" $types) }}{{ fail "cni.netconf has no plugin of type coil in its list \"plugins\"" }}{{ end -}}
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

{{/*
Flags of a container. Takes a list: the name of the user's value, the flags
that the chart sets, the user's, and the names of those only the chart may set.
*/}}
{{- define "coil.args" -}}
{{- $value := index . 0 -}}
{{- $own := index . 3 -}}
{{- $seen := list -}}
{{- range index . 2 -}}
{{- $flag := regexFind "^[^=]+" . -}}
{{- if has $flag $own }}{{ fail (printf "%s has %s, which the chart sets by other values" $value $flag) }}{{ end -}}
{{- if has $flag $seen }}{{ fail (printf "%s has %s twice" $value $flag) }}{{ end -}}
{{- $seen = append $seen $flag -}}
{{- end -}}
{{- with concat (index . 1) (index . 2) -}}
args:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{/* The security context of a pod. Takes a list: a workload's values, and what the chart sets. */}}
{{- define "coil.podSecurity" -}}
{{- $values := index . 0 -}}
{{- $context := mergeOverwrite (index . 1) ($values.securityContext | default dict) -}}
{{- with $values.appArmorProfile }}{{ $_ := set $context "appArmorProfile" . }}{{ end -}}
securityContext:
  {{- toYaml $context | nindent 2 }}
{{- end }}
