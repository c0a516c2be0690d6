import { ImageError } from "../base/errors.ts";

/** An image's name, as registries and container runtimes spell it. */
export interface Reference {
  /** With registry and tag: `docker.io/library/coil:1`. */
  readonly full: string;
  /** As docker shows it: `coil:1`. */
  readonly familiar: string;
  readonly tag: string;
}

// The grammar of github.com/distribution/reference, without digests.
const DOMAIN = /^(?:localhost|[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)+)(?::\d+)?$/;
const DOMAIN_WITH_PORT = /^[a-zA-Z0-9-]+:\d+$/;
const COMPONENT = /^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*$/;
const TAG = /^\w[\w.-]{0,127}$/;

/**
 * Reads `NAME[:TAG]`; the tag is `latest` when there is none, the registry
 * docker.io, as everywhere.
 *
 * @throws {ImageError} when it is not the name of an image
 */
export function parseReference(text: string): Reference {
  const slash = text.indexOf("/");
  const first = text.slice(0, Math.max(slash, 0));
  const hasDomain = DOMAIN.test(first) || DOMAIN_WITH_PORT.test(first);
  const domain = hasDomain ? first : "docker.io";
  const rest = hasDomain ? text.slice(slash + 1) : text;
  const colon = rest.indexOf(":");
  const name = colon < 0 ? rest : rest.slice(0, colon);
  const tag = colon < 0 ? "latest" : rest.slice(colon + 1);
  const components = name.split("/");
  if (!components.every((each) => COMPONENT.test(each)) || !TAG.test(tag)) {
    throw new ImageError(
      `Cannot name an image "${text}": a reference is [REGISTRY/]NAME[:TAG], its name in lower case, without a digest`,
    );
  }
  const isDocker = domain === "docker.io";
  const path = isDocker && components.length === 1 ? `library/${name}` : name;
  const familiar = isDocker
    ? name.replace(/^library\//, "")
    : `${first}/${name}`;
  return {
    full: `${domain}/${path}:${tag}`,
    familiar: `${familiar}:${tag}`,
    tag,
  };
}
