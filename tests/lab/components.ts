import * as path from "node:path";
import { run } from "./command.ts";
import { GO_DAEMON_ENV } from "./go_env.ts";
import { BRIDGE_HOST, type LabFamily, type LabNetwork } from "./network.ts";
import { type Authority, issueCertificate, type SharedPki } from "./pki.ts";
import { type LabProcess, spawnProcess } from "./process.ts";

/** Secure port of the API server. */
export const API_PORT = 6443;

/** What the processes of a control plane have in common. */
export interface ComponentContext {
  readonly runDir: string;
  /** Directory of the programs. */
  readonly programs: string;
  readonly network: LabNetwork;
  readonly families: readonly LabFamily[];
  readonly pki: SharedPki;
  readonly adminToken: string;
}

const SERVICE_RANGES = { ipv4: "10.96.0.0/16", ipv6: "fd96::/112" };
const SERVICE_ADDRESSES = { ipv4: "10.96.0.1", ipv6: "fd96::1" };

/** Makes the certificates and files that the components read. */
export async function prepareFiles(context: ComponentContext): Promise<void> {
  const { runDir, pki } = context;
  await Promise.all([
    issueServingCertificate(context, pki),
    issueCertificate(pki, path.join(runDir, "front-client"), {
      user: "front-proxy-client",
    }),
    issueCertificate(pki, path.join(runDir, "controller-manager"), {
      user: "system:kube-controller-manager",
    }),
    // For logs and exec of real nodes' pods.
    issueCertificate(pki, path.join(runDir, "kubelet-client"), {
      user: "kube-apiserver-kubelet-client",
      groups: ["system:masters"],
    }),
    Deno.writeTextFile(
      path.join(runDir, "tokens.csv"),
      `${context.adminToken},admin,admin,system:masters\n`,
    ),
  ]);
}

/** Makes the certificate that the API server serves with, in place of an earlier one. */
export async function issueServingCertificate(
  { runDir, families, network }: ComponentContext,
  authority: Authority,
): Promise<void> {
  const addresses = families.flatMap((f) => [
    network.subnet.address(f, BRIDGE_HOST),
    SERVICE_ADDRESSES[f],
  ]);
  const names = ["localhost", "kubernetes", "kubernetes.default.svc"];
  await issueCertificate(authority, path.join(runDir, "apiserver"), {
    user: "kube-apiserver",
    names: [
      ...["127.0.0.1", "::1", ...addresses].map((a) => `IP:${a}`),
      ...names.map((n) => `DNS:${n}`),
    ],
  });
}

/** Copies the data of an etcd that does not run. */
export async function copyData(from: string, to: string): Promise<void> {
  // It allocates more than it uses.
  await run("cp", ["--recursive", "--sparse=always", from, to]);
}

/** Where etcd keeps its data. */
export function etcdDataDir(runDir: string): string {
  return path.join(runDir, "etcd");
}

/** Starts etcd, which keeps its data in the run directory. */
export async function startEtcd(
  context: ComponentContext,
): Promise<LabProcess> {
  return await spawnProcess({
    id: "etcd",
    runDir: context.runDir,
    netns: context.network.netns,
    command: path.join(context.programs, "etcd"),
    args: ["--data-dir", etcdDataDir(context.runDir)],
    // The lab's own does so by itself: data need not outlive the machine.
    env: {
      ...GO_DAEMON_ENV,
      ETCD_UNSAFE_NO_FSYNC: "true",
      ETCD_LOG_LEVEL: "warn",
    },
  });
}

/** Starts kube-apiserver, which etcd may yet have to follow. */
export async function startApiServer(
  context: ComponentContext,
  options: { extraArgs: readonly string[] },
): Promise<LabProcess> {
  const { runDir, families, network, pki } = context;
  const file = (name: string) => path.join(runDir, name);
  const family = families[0] ?? "ipv4";
  const flags: Record<string, string> = {
    "etcd-servers": "http://127.0.0.1:2379",
    "bind-address": families.includes("ipv6") ? "::" : "0.0.0.0",
    "advertise-address": network.subnet.address(family, BRIDGE_HOST),
    "secure-port": String(API_PORT),
    "service-cluster-ip-range": families.map((f) => SERVICE_RANGES[f]).join(),
    "authorization-mode": "Node,RBAC",
    "enable-admission-plugins": "NodeRestriction",
    "allow-privileged": "true",
    "client-ca-file": pki.caCert,
    "tls-cert-file": file("apiserver.crt"),
    "tls-private-key-file": file("apiserver.key"),
    "token-auth-file": file("tokens.csv"),
    "kubelet-certificate-authority": pki.caCert,
    "kubelet-client-certificate": file("kubelet-client.crt"),
    "kubelet-client-key": file("kubelet-client.key"),
    "kubelet-preferred-address-types": "InternalIP",
    "service-account-issuer": "https://kubernetes.default.svc",
    "service-account-key-file": pki.serviceAccountPublicKey,
    "service-account-signing-key-file": pki.serviceAccountKey,
    "requestheader-client-ca-file": pki.frontCaCert,
    "requestheader-allowed-names": "front-proxy-client",
    "requestheader-username-headers": "X-Remote-User",
    "requestheader-group-headers": "X-Remote-Group",
    "requestheader-extra-headers-prefix": "X-Remote-Extra-",
    "proxy-client-cert-file": file("front-client.crt"),
    "proxy-client-key-file": file("front-client.key"),
    "profiling": "false",
  };
  const args = Object.entries(flags).map(([name, v]) => `--${name}=${v}`);
  return await spawnProcess({
    id: "kube-apiserver",
    runDir,
    netns: network.netns,
    command: path.join(context.programs, "kube-apiserver"),
    args: [...args, ...options.extraArgs],
    env: GO_DAEMON_ENV,
  });
}

/** Starts kube-controller-manager. */
export async function startControllerManager(
  context: ComponentContext,
  options: { kubeconfig: string },
): Promise<LabProcess> {
  const { runDir, network, pki } = context;
  const { kubeconfig } = options;
  return await spawnProcess({
    id: "kube-controller-manager",
    runDir,
    netns: network.netns,
    command: path.join(context.programs, "kube-controller-manager"),
    args: [
      `--kubeconfig=${kubeconfig}`,
      `--authentication-kubeconfig=${kubeconfig}`,
      `--authorization-kubeconfig=${kubeconfig}`,
      "--bind-address=127.0.0.1",
      "--leader-elect=false",
      "--use-service-account-credentials=true",
      `--service-account-private-key-file=${pki.serviceAccountKey}`,
      `--root-ca-file=${pki.caCert}`,
      `--cluster-signing-cert-file=${pki.caCert}`,
      `--cluster-signing-key-file=${pki.caKey}`,
      "--allocate-node-cidrs=false",
      // The default of 20 requests a second makes the start 4 s longer.
      "--kube-api-qps=1000",
      "--kube-api-burst=2000",
      "--profiling=false",
    ],
    env: GO_DAEMON_ENV,
  });
}
