"""What a scrape of metrics says."""

from prometheus_client.parser import text_string_to_metric_families


def values(scrape: str, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by those of its labels, which are in alphabetical order."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(scrape)
        for sample in family.samples
        if sample.name == name
    }
