import { isJsonObject, type JsonObject } from "../json/mod.ts";
import {
  type AttachmentKey,
  CniError,
  ErrorCode,
  type NetConf,
} from "../cni/mod.ts";
import { Address } from "../inet/mod.ts";
import type { Netns } from "../linux/mod.ts";
import { DEFAULT_ROUTE_NIC_ANNOTATION } from "../names/mod.ts";
import { attach } from "./calls/attach.ts";
import { check } from "./calls/check.ts";
import { collect } from "./calls/collect.ts";
import { type Given, parseGiven, parseNicName } from "./config/config.ts";
import { invalidConfig } from "./config/invalid.ts";
import { hasServices, requireServices, settingsOf } from "./config/defaults.ts";
import type { Kernel, Outside, PodArgs } from "./kernel/ports.ts";
import { detach } from "./calls/teardown.ts";

/** A call of a runtime, read and checked, as of `lib/plugin`. */
export interface CoordinatorCall {
  readonly command: "ADD" | "DEL" | "CHECK" | "GC" | "STATUS";
  readonly conf: NetConf;
  readonly request: AttachmentKey & {
    readonly netns: string;
    /** Those of `CNI_ARGS` that name the pod. */
    readonly args: PodArgs;
    /** The addresses of `prevResult`. */
    readonly ips: readonly string[];
    readonly validAttachments: readonly AttachmentKey[];
  };
}

/**
 * Does what a runtime asks of the plugin `coordinator`, and returns what to
 * print: for ADD the result of the plugin before, as it came.
 *
 * @throws {CniError} for what the runtime has to know
 */
export async function runCoordinator(
  outside: Outside,
  call: CoordinatorCall,
): Promise<string> {
  switch (call.command) {
    case "ADD":
      return await add(outside, call);
    case "CHECK":
      await checkCall(outside, call);
      return "";
    case "DEL":
      await remove(outside, call);
      return "";
    case "GC": {
      using host = outside.openRoutes(outside.hostNetns);
      await collect(outside, host, call.request.validAttachments);
      return "";
    }
    case "STATUS":
      status(outside, call);
      return "";
  }
}

async function add(outside: Outside, call: CoordinatorCall): Promise<string> {
  const { conf, request } = call;
  const { given, problem } = outside.shared();
  const own = parseGiven(conf.raw);
  const annotated = await annotatedFor(outside, call, own);
  if (annotated === undefined) {
    const { ifname, args } = request;
    outside.warn(
      "The pod's annotations are not known, so none of them counts",
      {
        iface: ifname,
        pod: args["K8S_POD_NAME"],
        namespace: args["K8S_POD_NAMESPACE"],
      },
    );
  }
  const sources = [own, annotated ?? {}, given];
  const settings = settingsOf(sources);
  if (conf.prevResult === undefined) {
    throw invalidConfig(
      "missing prevResult",
      "coordinator must come after the plugin that creates the interface",
    );
  }
  const result = printed(conf); // what cannot be printed must not be joined
  if (settings.mode !== "disable") {
    requireServices(sources, problem);
    await using pod = openPod(outside, request.netns);
    await attach(outside, pod, { ...request, settings });
  }
  return result;
}

/** Without the pod's annotations, the interface that has the default route is the one that should have it. */
async function checkCall(
  outside: Outside,
  call: CoordinatorCall,
): Promise<void> {
  const { conf, request } = call;
  const { given } = outside.shared();
  const own = parseGiven(conf.raw);
  const annotated = await annotatedFor(outside, call, own)
    .catch(() => undefined); // no caller waits for the API server to be back
  const sources = annotated === undefined
    ? [own, { ...given, defaultRouteNic: undefined }]
    : [own, annotated, given];
  const settings = settingsOf(sources);
  if (settings.mode === "disable") return;
  await using pod = openPod(outside, request.netns);
  const hasDefaults = hasServices(sources);
  await check(outside, pod, { ...request, settings }, { hasDefaults });
}

/** Needs neither defaults nor a valid configuration: a pod can always be deleted. */
async function remove(
  outside: Outside,
  { conf, request }: CoordinatorCall,
): Promise<void> {
  const { containerId, ifname } = request;
  const { firstNic } = settingsOf([ownForDelete(conf)]);
  const addresses = request.ips.flatMap((ip) => Address.tryParse(ip) ?? []);
  const detachment = { containerId, ifname, firstNic, addresses };
  const netns = request.netns === ""
    ? undefined
    : outside.openPodNetns(request.netns);
  if (netns === undefined) {
    using host = outside.openRoutes(outside.hostNetns);
    await detach(outside, { host }, detachment);
    return;
  }
  await using pod = openKernel(outside, netns);
  await detach(outside, pod, detachment);
}

function status(outside: Outside, { conf }: CoordinatorCall): void {
  const { given, problem } = outside.shared();
  try {
    const sources = [parseGiven(conf.raw), given];
    if (settingsOf(sources).mode === "disable") return;
    requireServices(sources, problem);
  } catch (cause) {
    if (!(cause instanceof CniError)) throw cause;
    const { message, details } = cause;
    const code = ErrorCode.PLUGIN_NOT_AVAILABLE;
    throw new CniError(message, { code, details, cause });
  }
}

function ownForDelete({ raw }: NetConf): Given {
  try {
    return parseGiven(raw);
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    return {};
  }
}

/** What the pod's annotations ask for; undefined when they are not known. The first interface, and one whose configuration decides, needs none. */
async function annotatedFor(
  { annotationsOf }: Outside,
  { conf, request: { ifname, args } }: CoordinatorCall,
  own: Given,
): Promise<Given | undefined> {
  const { firstNic } = settingsOf([own]);
  if (own.defaultRouteNic !== undefined || ifname === firstNic) return {};
  const annotations = runtimeAnnotations(conf) ?? await annotationsOf?.(args);
  return annotations && annotationIn(annotations);
}

/** What is not text counts as absent. @throws {CniError} with code 7 when it cannot name an interface */
function annotationIn(
  annotations: Readonly<Record<string, unknown>>,
): Given {
  const key = DEFAULT_ROUTE_NIC_ANNOTATION;
  if (typeof annotations[key] !== "string") return {};
  return { defaultRouteNic: parseNicName(annotations, key) };
}

/** As containerd and CRI-O hand them over to plugins with that capability. */
function runtimeAnnotations(
  { runtimeConfig }: NetConf,
): JsonObject | undefined {
  const annotations = runtimeConfig?.["io.kubernetes.cri.pod-annotations"];
  return isJsonObject(annotations) ? annotations : undefined;
}

/** With everything that the plugin before wrote, known here or not. */
function printed({ raw, cniVersion }: NetConf): string {
  const result = { cniVersion, ...raw["prevResult"] as object }; // an object: it was parsed
  return JSON.stringify(result, undefined, 4);
}

function openPod(
  outside: Outside,
  path: string,
): Kernel & AsyncDisposable {
  const netns = outside.openPodNetns(path);
  if (netns !== undefined) return openKernel(outside, netns);
  throw new CniError(`network namespace "${path}" is not there`, {
    code: ErrorCode.INVALID_ENVIRONMENT_VARIABLES,
    details: "CNI_NETNS must name the network namespace of the container",
  });
}

function openKernel(
  outside: Outside,
  netns: Netns,
): Kernel & AsyncDisposable {
  const { openRoutes, openFilters, hostNetns, writeSysctl } = outside;
  const { later = (work) => work() } = outside;
  const stack = new AsyncDisposableStack();
  stack.use(netns);
  const pod = stack.use(openRoutes(netns));
  const host = stack.use(openRoutes(hostNetns));
  const filters = openFilters(netns);
  stack.defer(() => later(async () => await filters[Symbol.asyncDispose]()));
  return {
    netns,
    hostNetns,
    pod,
    host,
    filters,
    writeSysctl,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
