import { APP_NAME, APP_NAME_LABEL } from "../../../lib/names/mod.ts";

/** All objects that Coil's manifests make. */
export const OF_COIL: { readonly labelSelector: string } = {
  labelSelector: `${APP_NAME_LABEL}=${APP_NAME}`,
};

/** Nodes on which coild runs. */
export const LINUX: { readonly labelSelector: string } = {
  labelSelector: "kubernetes.io/os!=windows",
};
