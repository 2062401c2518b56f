// Scrolls what is in the middle of the window, or the page; says how far it is now.
function (direction) {
    const root = document.scrollingElement || document.documentElement;
    const canScroll = (element) => {
        if (element.scrollHeight <= element.clientHeight + 1) return false;
        const left = direction < 0 ? element.scrollTop > 0 : element.scrollTop + element.clientHeight < element.scrollHeight - 1;
        return left && (element === root || /auto|scroll|overlay/.test(getComputedStyle(element).overflowY));
    };
    let target = document.elementFromPoint(innerWidth / 2, innerHeight / 2);
    while (target && !canScroll(target)) target = target.parentElement;
    target = target || root;
    const height = target === root ? innerHeight : target.clientHeight;
    const before = target.scrollTop;
    target.scrollBy({ top: direction * height * 0.85, behavior: "instant" });
    return { moved: target.scrollTop !== before, top: target.scrollTop, seen: target.scrollTop + height, all: target.scrollHeight };
}
