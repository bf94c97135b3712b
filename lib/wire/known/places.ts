/** Which nodes of a tree have a place: where the caller, or the mount, has them now. */

export interface Place<N> {
  parent: N;
  name: string;
}

/** What nodes of a tree share beside what is known. */
export class Places<N extends { id: bigint }> {
  readonly #nodes = new Map<string, Set<N>>();

  #key = ({ parent, name }: Place<N>) => `${parent.id}/${name}`;

  add(place: Place<N>, node: N): void {
    const key = this.#key(place);
    this.#nodes.set(key, (this.#nodes.get(key) ?? new Set()).add(node));
  }

  remove(place: Place<N>, node: N): void {
    const key = this.#key(place);
    const all = this.#nodes.get(key);
    all?.delete(node);
    if (all?.size === 0) this.#nodes.delete(key);
  }

  at(place: Place<N>): N[] {
    return [...this.#nodes.get(this.#key(place)) ?? []];
  }
}
