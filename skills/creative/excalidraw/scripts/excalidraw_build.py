#!/usr/bin/env python3
"""Builds an .excalidraw file from a short specification of nodes and edges, and checks such files."""
import argparse
import json
import math
import sys
import zlib
from pathlib import Path

COLORS = {
    None: ("#1e1e1e", "transparent"), "blue": ("#1971c2", "#a5d8ff"), "green": ("#2f9e44", "#b2f2bb"), "yellow": ("#f08c00", "#ffec99"),
    "red": ("#e03131", "#ffc9c9"), "violet": ("#6741d9", "#d0bfff"), "gray": ("#495057", "#e9ecef"), "orange": ("#e8590c", "#ffd8a8"),
}
SHAPES = {"rectangle", "ellipse", "diamond", "text"}
FONT_SIZE, LINE_HEIGHT, GAP = 20, 1.25, 6


def fail(text):
    sys.exit(f"excalidraw_build: {text}")


def read(path):
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}")
    except ValueError as error:
        fail(f"{path} is not JSON: {error}")


def text_size(text, font_size):
    """Returns the estimated width and height of a text."""
    lines = text.split("\n")
    return max(len(line) for line in lines) * font_size * 0.56 + 4, len(lines) * font_size * LINE_HEIGHT


class Builder:
    def __init__(self, spec):
        self.spec = spec
        self.elements = []
        self.boxes = {}
        self.roughness = spec.get("roughness", 1)

    def element(self, kind, key, x, y, width, height, stroke, fill="transparent", **more):
        seed = zlib.crc32(key.encode())
        element = {
            "id": key, "type": kind, "x": round(x, 2), "y": round(y, 2), "width": round(width, 2), "height": round(height, 2), "angle": 0,
            "strokeColor": stroke, "backgroundColor": fill, "fillStyle": "solid", "strokeWidth": 2, "strokeStyle": "solid",
            "roughness": self.roughness, "opacity": 100, "groupIds": [], "frameId": None, "roundness": None, "seed": seed, "version": 1,
            "versionNonce": seed ^ 0x5A5A5A5A, "isDeleted": False, "boundElements": [], "updated": 1, "link": None, "locked": False,
        }
        element.update(more)
        self.elements.append(element)
        return element

    def text(self, key, text, center_x, center_y, stroke, container=None, font_size=FONT_SIZE):
        width, height = text_size(text, font_size)
        label = self.element(
            "text", key, center_x - width / 2, center_y - height / 2, width, height, stroke, text=text, originalText=text,
            fontSize=font_size, fontFamily=1, textAlign="center", verticalAlign="middle",
            containerId=container["id"] if container else None, lineHeight=LINE_HEIGHT, autoResize=True)
        if container:
            container["boundElements"].append({"type": "text", "id": key})
        return label

    def node(self, node, gap_x, gap_y):
        for field in ("id", "label"):
            if not isinstance(node.get(field), str) or not node[field]:
                fail(f"a node has no `{field}`: {node}")
        name, shape = node["id"], node.get("shape", "rectangle")
        if name in self.boxes:
            fail(f"two nodes have the id `{name}`")
        if shape not in SHAPES or node.get("color") not in COLORS:
            fail(f"node `{name}`: unknown shape or color")
        stroke, fill = COLORS[node.get("color")]
        text_width, text_height = text_size(node["label"], FONT_SIZE)
        room = 1.6 if shape == "diamond" else 1.3 if shape == "ellipse" else 1.0
        width = node.get("width") or max(160, (text_width + 40) * room)
        height = node.get("height") or max(80, (text_height + 36) * room)
        center_x = node["x"] + width / 2 if "x" in node else node.get("col", 0) * gap_x
        center_y = node["y"] + height / 2 if "y" in node else node.get("row", 0) * gap_y
        if shape == "text":
            self.boxes[name] = self.text(f"n-{name}", node["label"], center_x, center_y, stroke)
            return
        box = self.element(shape, f"n-{name}", center_x - width / 2, center_y - height / 2, width, height, stroke, fill,
                           roundness={"type": 3} if shape == "rectangle" else None)
        self.text(f"t-{name}", node["label"], center_x, center_y, "#1e1e1e", box)
        self.boxes[name] = box

    def border(self, box, to_x, to_y):
        """Returns the point where the line from the center to (to_x, to_y) leaves the box, a little outside."""
        center_x, center_y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        dx, dy = to_x - center_x, to_y - center_y
        length = math.hypot(dx, dy) or 1.0
        half_x, half_y = box["width"] / 2, box["height"] / 2
        if box["type"] == "ellipse":
            share = 1 / (math.hypot(dx / half_x, dy / half_y) or 1.0)
        elif box["type"] == "diamond":
            share = 1 / ((abs(dx) / half_x + abs(dy) / half_y) or 1.0)
        else:
            share = min(half_x / abs(dx) if dx else math.inf, half_y / abs(dy) if dy else math.inf)
        share += GAP / length
        return center_x + dx * share, center_y + dy * share

    def edge(self, number, edge):
        ends = []
        for field in ("from", "to"):
            if edge.get(field) not in self.boxes:
                fail(f"edge {number + 1}: `{field}` names no node: {edge.get(field)}")
            ends.append(self.boxes[edge[field]])
        if ends[0] is ends[1]:
            fail(f"edge {number + 1}: a node cannot be connected to itself")
        if edge.get("color") not in COLORS:
            fail(f"edge {number + 1}: unknown color")
        first, second = ends
        # Opposite edges between the same nodes are drawn beside each other.
        twin = any(other.get("from") == edge["to"] and other.get("to") == edge["from"] for other in self.spec.get("edges", []))
        centers = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in ends]
        shift_x = shift_y = 0.0
        if twin:
            dx, dy = centers[1][0] - centers[0][0], centers[1][1] - centers[0][1]
            length = math.hypot(dx, dy) or 1.0
            shift_x, shift_y = -dy / length * 14, dx / length * 14
        start = self.border(first, *centers[1])
        end = self.border(second, *centers[0])
        start, end = (start[0] + shift_x, start[1] + shift_y), (end[0] + shift_x, end[1] + shift_y)
        dx, dy = end[0] - start[0], end[1] - start[1]
        key = f"e-{number}-{edge['from']}-{edge['to']}"
        arrow = self.element(
            "arrow", key, start[0], start[1], abs(dx), abs(dy), COLORS[edge.get("color")][0],
            strokeStyle="dashed" if edge.get("dashed") else "solid", roundness={"type": 2},
            points=[[0, 0], [round(dx, 2), round(dy, 2)]], lastCommittedPoint=None,
            startBinding={"elementId": first["id"], "focus": 0, "gap": GAP}, endBinding={"elementId": second["id"], "focus": 0, "gap": GAP},
            startArrowhead="arrow" if edge.get("both") else None, endArrowhead=None if edge.get("plain") else "arrow")
        for box in ends:
            box["boundElements"].append({"type": "arrow", "id": key})
        if edge.get("label"):
            self.text(f"l-{number}", edge["label"], start[0] + dx / 2, start[1] + dy / 2, arrow["strokeColor"], arrow, 16)

    def group(self, number, group):
        members = [self.boxes.get(name) for name in group.get("nodes", [])]
        if not members or None in members:
            fail(f"group {number + 1} names an unknown node, or none")
        left, top = min(box["x"] for box in members) - 40, min(box["y"] for box in members) - 60
        right = max(box["x"] + box["width"] for box in members) + 40
        bottom = max(box["y"] + box["height"] for box in members) + 40
        self.element("rectangle", f"g-{number}", left, top, right - left, bottom - top, "#868e96", strokeStyle="dashed", roundness={"type": 3})
        if group.get("label"):
            width, height = text_size(group["label"], 16)
            self.text(f"gt-{number}", group["label"], left + width / 2 + 12, top + height / 2 + 8, "#868e96", font_size=16)

    def build(self):
        gap_x, gap_y = self.spec.get("gap_x", 280), self.spec.get("gap_y", 180)
        for node in self.spec.get("nodes", []):
            self.node(node, gap_x, gap_y)
        if not self.boxes:
            fail("the specification has no nodes")
        for number, edge in enumerate(self.spec.get("edges", [])):
            self.edge(number, edge)
        drawn = self.elements
        self.elements = []
        for number, group in enumerate(self.spec.get("groups", [])):
            self.group(number, group)
        self.elements += drawn
        if self.spec.get("title"):
            left = min(element["x"] for element in self.elements)
            top = min(element["y"] for element in self.elements)
            width, height = text_size(self.spec["title"], 28)
            self.text("title", self.spec["title"], left + width / 2, top - height - 20, "#1e1e1e", font_size=28)
        return {"type": "excalidraw", "version": 2, "source": "https://excalidraw.com", "elements": self.elements,
                "appState": {"viewBackgroundColor": "#ffffff", "gridSize": None}, "files": {}}


def check(drawing):
    """Returns errors and warnings of a drawing."""
    errors, warnings = [], []
    if drawing.get("type") != "excalidraw" or not isinstance(drawing.get("elements"), list):
        return ["not an Excalidraw drawing"], []
    elements = [element for element in drawing["elements"] if not element.get("isDeleted")]
    by_id = {}
    for element in elements:
        if element.get("id") in by_id:
            errors.append(f"the id {element.get('id')} occurs twice")
        by_id[element.get("id")] = element
        for field in ("type", "x", "y", "width", "height"):
            if field not in element:
                errors.append(f"{element.get('id')} has no `{field}`")
    for element in elements:
        container = element.get("containerId")
        if container and {"type": "text", "id": element["id"]} not in (by_id.get(container, {}).get("boundElements") or []):
            errors.append(f"text {element['id']}: its container {container} does not name it")
        for field in ("startBinding", "endBinding"):
            binding = element.get(field)
            if not binding:
                continue
            bound = by_id.get(binding["elementId"], {}).get("boundElements") or []
            if not any(entry.get("id") == element["id"] for entry in bound):
                errors.append(f"arrow {element['id']}: {binding['elementId']} does not name it")
        for entry in element.get("boundElements") or []:
            if entry.get("id") not in by_id:
                errors.append(f"{element['id']} names {entry.get('id')}, which does not exist")
    boxes = [element for element in elements if str(element.get("id", "")).startswith("n-")]
    for index, one in enumerate(boxes):
        for other in boxes[index + 1:]:
            apart = (one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
                     or one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"])
            if not apart:
                warnings.append(f"{one['id']} and {other['id']} overlap")
    return errors, warnings


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    builder = commands.add_parser("build", help="specification to drawing")
    builder.add_argument("spec")
    builder.add_argument("target", type=Path)
    checker = commands.add_parser("check", help="check a drawing")
    checker.add_argument("drawing")
    arguments = parser.parse_args()
    if arguments.command == "build":
        spec = read(arguments.spec)
        if not isinstance(spec, dict):
            fail("the specification must be an object")
        drawing = Builder(spec).build()
        arguments.target.write_text(json.dumps(drawing, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{arguments.target}: {len(spec.get('nodes', []))} nodes, {len(spec.get('edges', []))} edges, {len(drawing['elements'])} elements")
    else:
        drawing = read(arguments.drawing)
    errors, warnings = check(drawing)
    for text in warnings:
        print(f"warning: {text}")
    for text in errors:
        print(f"error: {text}")
    if errors:
        sys.exit(1)
    if arguments.command == "check":
        print(f"{len(drawing['elements'])} elements, ok")


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
