import { type KubeClient, PODS, type V1Pod } from "../../../lib/kube/mod.ts";

/** Names that the controller's container has in manifests. */
const OWN_CONTAINERS = ["coil-controller", "coil-egress-controller"];

/** Where to find out which image egress pods run. */
export interface EgressImageOptions {
  readonly client: KubeClient;
  /** The one from the command line; the API server is not asked then. */
  readonly image: string;
  /** The pod that this process runs in, as far as it is known. */
  readonly pod: {
    readonly namespace?: string | undefined;
    readonly name?: string | undefined;
    /** Name of this process' container. */
    readonly container?: string | undefined;
  };
}

/** No image is configured for egress pods. */
export class UnknownImageError extends Error {
  override readonly name = "UnknownImageError";
}

/** The image of egress pods whose template names none: the controller's own, since one image has every role. */
export class EgressImage {
  readonly #options: EgressImageOptions;
  #image: string | undefined;

  constructor(options: EgressImageOptions) {
    this.#options = options;
    if (options.image !== "") this.#image = options.image;
  }

  /**
   * Returns the image; asks the API server until it is known.
   *
   * @throws {UnknownImageError} when there is no way to find it out
   */
  async get(signal: AbortSignal): Promise<string> {
    if (this.#image !== undefined) return this.#image;
    const { client, pod: { namespace, name, container } } = this.#options;
    if (!namespace || !name) {
      throw new UnknownImageError(
        "Cannot determine the image of gateways: set --egress-image, or COIL_POD_NAMESPACE and COIL_POD_NAME of the controller's pod, or an image in the Egress' template",
      );
    }
    const pod = await client.tryGet(PODS, { namespace, name, signal });
    const image = pod === undefined ? undefined : imageOf(pod, { container });
    if (image === undefined) {
      throw new UnknownImageError(
        `Cannot determine the image of gateways: ${
          pod === undefined
            ? `pod "${namespace}/${name}" does not exist`
            : `pod "${namespace}/${name}" has no container "${container}"`
        }; give the controller --egress-image`,
      );
    }
    this.#image = image;
    return image;
  }
}

/**
 * The image of the container that the controller runs in: the one of the given name,
 * else one named like the controller, else the first. Others may have been put
 * before it.
 */
export function imageOf(
  pod: V1Pod,
  { container }: { readonly container?: string | undefined } = {},
): string | undefined {
  const containers = pod.spec?.containers ?? [];
  const byName = (name: string) => containers.find((c) => c.name === name);
  if (container) return byName(container)?.image;
  const own = OWN_CONTAINERS.map(byName).find((c) => c !== undefined);
  return (own ?? containers[0])?.image;
}
