/** Where an object is in its collection. */
export interface NamespacedName {
  readonly namespace: string;
  readonly name: string;
}

/** `<namespace>/<name>` */
export function nameText({ namespace, name }: NamespacedName): string {
  return `${namespace}/${name}`;
}
